# Tests of the tool as people call it: each file says in its RUN lines what to do and what must come out.
import os

import lit.formats

config.name = "Sluice"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".sluice", ".test"]
config.excludes = ["Inputs", "unit", "fuzz", "bench", "executor", "goldens", "install", "page", "cmake", "mpi", "nccl", "observe", "training"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.build_dir, "test", "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.build_dir, "bin"), config.llvm_tools, config.environment["PATH"]]
)
config.environment["NO_COLOR"] = "1"
config.environment["COLUMNS"] = "100"
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Fontconfig, behind the PNG, keeps its caches to the end of the process.
config.environment["LSAN_OPTIONS"] = "suppressions=" + os.path.join(config.test_source_root, "lsan.supp") + ":print_suppressions=0"
config.substitutions.append(("%examples", os.path.join(config.test_source_root, "..", "docs", "examples")))
config.substitutions.append(("%std", os.path.join(config.test_source_root, "..", "lib", "Std")))
