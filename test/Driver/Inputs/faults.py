"""What docs/faults.md says, against the tests that it names.

usage: faults.py FAULTS.MD

Each row that names sections of tests: every report of it stands in one of their files, and every rule of it is
found in one of the sections. A row out of reach gives a reason. No report stands in two rows.
"""

import pathlib
import re
import sys

page = pathlib.Path(sys.argv[1])
text = page.read_text()
wrong = []


def sections(path):
    """The name and the text of each part of a split file."""
    head, *parts = re.split(r"^//--- ", path.read_text(), flags=re.MULTILINE)
    found = {re.split(r"\.\w+$", name)[0]: body for name, _, body in (part.partition("\n") for part in parts)}
    # Of payloads that allow no comments, what must be said stands in front.
    return {name: body if "CHECK" in body else head + body for name, body in found.items()}


def check_tested(reports, says, tests):
    links = re.findall(r"\[([^]]+)\]\(([^)]+)\)", tests)
    files, bodies = set(), ""
    for section, link in links:
        path = page.parent / link
        if not path.is_file():
            wrong.append(f"{link} does not exist")
            continue
        files.add(path)
        parts = sections(path)
        if section not in parts:
            wrong.append(f"{link} has no section {section}")
        bodies += parts.get(section, "")
    if not links:
        wrong.append(f"{reports}: no test")
    for report in reports:
        if not any(re.search(re.escape(report) + r"\b", path.read_text()) for path in files):
            wrong.append(f"{report}: not in {tests}")
    rules = re.findall(r"\[(\d{3})\]\(rules/(\S+)\.md\)", says)
    for number, name in rules:
        if not re.search(rf"\[{re.escape(name[4:])} {number}\]", bodies):
            wrong.append(f"{reports}: {number} is not found by {tests}")
        if not (page.parent / "rules" / f"{name}.md").is_file():
            wrong.append(f"{reports}: no page {name}")
    if not rules and not says.startswith("clean"):
        wrong.append(f"{reports}: neither a rule nor clean")


seen = set()
reach, _, beyond = text.partition("## Out of reach")
rows = 0
for part, is_tested in (reach, True), (beyond, False):
    for line in re.findall(r"^\| `.*$", part, re.MULTILINE):
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        reports = re.findall(r"`([\w.-]+/[\w.-]+#\d+)`", cells[0])
        rows += 1
        wrong += [f"{report} stands twice" for report in reports if report in seen]
        seen.update(reports)
        if is_tested:
            check_tested(reports, cells[1], cells[2])
        elif len(cells) != 2 or len(cells[1]) < 10:
            wrong.append(f"{reports}: no reason")

print("\n".join(wrong) if wrong else f"{len(seen)} reports in {rows} rows: each has its test or a reason")
