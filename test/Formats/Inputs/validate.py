"""Validates JSON against a schema; says so if Python has no jsonschema, which is no failure.

usage: validate.py SCHEMA FILE...
"""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("not validated: no jsonschema here")
    sys.exit()
schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
for name in sys.argv[2:]:
    jsonschema.validate(json.loads(pathlib.Path(name).read_text()), schema)
    print("valid:", pathlib.Path(name).name)
wrong = json.loads(pathlib.Path(sys.argv[2]).read_text())
wrong["programs"][0].append(["forwart", 0, 0])
try:
    jsonschema.validate(wrong, schema)
    sys.exit("an op that there is not is valid")
except jsonschema.ValidationError:
    pass
