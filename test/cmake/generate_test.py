"""An installed Sluice and a project of its own: what is generated and compiled when something changes."""

import os
import re
import stat
from pathlib import Path

from projects import Project, check, fresh, install, options, run

EXPECTED = """\
pipeline: 2 devices, 4 microbatches
pipeline: 4 devices, {microbatches} microbatches
cells: 2 devices, 2 microbatches
"""
ALL = {"small", "large", "cells"}


def first_build(project):
    built = project.build()
    check(built.generated == ALL, "the first build generates all", built)
    check(project.program() == EXPECTED.format(microbatches=16), "two parameterisations in one program")
    # The copy of the runtime stands alone.
    check((project.build_folder / "sluice_generated/cells/sluice/Executor.h").exists(), "WITH_RUNTIME", built)


def nothing_to_do(project, after):
    built = project.build()
    check(built.nothing(), f"a build right after {after} does nothing", built)


def touched_files(project):
    before = project.generated()
    for name, users in (("parts/order.sluice", {"small", "large"}), ("pipeline.sluice", {"small", "large"}),
                        ("parts/order.csv", {"cells"}), ("parts/times.json", {"cells"})):
        project.touch(name)
        built = project.build()
        check(built.generated == users, f"a touched {name} is looked at again", built)
        check(not built.compiled and not built.linked, f"a touched {name} compiles nothing", built)
        nothing_to_do(project, f"touching {name}")
    project.edit("parts/order.sluice", "// All forwards", "// First all forwards")
    built = project.build()
    check(built.generated == {"small", "large"} and not built.compiled, "a comment compiles nothing", built)
    check(project.generated() == before, "the same bytes")


def changed_files(project):
    project.edit("parts/order.sluice", "for m in 0..M { backward(m); }", "for m in 0..M { backward(M - 1 - m); }")
    built = project.build()
    check(built.generated == {"small", "large"}, "a changed import is read", built)
    check(built.compiled == {"pipeline.cpp", "uses_small.cpp", "uses_large.cpp"}, "and what changed compiled", built)
    check("consumer" in built.linked, "and linked", built)
    nothing_to_do(project, "a changed import")

    project.configure("-DMICROBATCHES=8")
    built = project.build()
    check(built.generated == {"large"}, "a changed parameter generates its executor again", built)
    check(built.compiled == {"pipeline.cpp", "uses_large.cpp"}, "and compiles it", built)
    check(project.program() == EXPECTED.format(microbatches=8), "with its new value")
    nothing_to_do(project, "a changed parameter")


def bad_files(project):
    good = project.path("parts/order.sluice").read_text()
    project.edit("parts/order.sluice", "reduce;", "reduce; backward(0);")
    for _ in range(2):  # it fails until it is mended
        built = project.build(expect=None)
        place = f"{project.path('parts/order.sluice')}:7:13: error: "
        check(place in built.output, f"the message of the tool is shown, with {place}", built)
        check("duplicate-op 203" in built.output and not built.compiled, "and nothing is compiled", built)
    project.path("parts/order.sluice").write_text(good)
    built = project.build()
    check(not built.compiled, "mended as it was, nothing is compiled", built)
    nothing_to_do(project, "a mended file")

    # An import that is there no more is no riddle of the build tool's.
    order = project.path("parts/order.sluice")
    order.rename(project.path("parts/moved.sluice"))
    built = project.build(expect=None)
    check("pipeline.sluice:1:1: error: cannot import" in built.output, "a missing import is said", built)
    project.path("parts/moved.sluice").rename(order)
    project.build()
    nothing_to_do(project, "an import that came back")


def new_tool(project, prefix):
    tool = prefix / "bin" / "sluice"
    os.utime(tool)
    built = project.build()
    check(built.generated == ALL and not built.compiled, "a new tool generates all again", built)
    nothing_to_do(project, "a new tool")

    # One that writes something else: it lets the old one do the work and adds a line.
    old = tool.with_name("sluice-old")
    tool.rename(old)
    tool.write_text(f"""#!/bin/sh
"{old}" "$@" || exit
folder=$(echo "$*" | sed 's/.* -o \\(.*\\) --depfile.*/\\1/')
case "$folder" in *large) echo '// another tool' >>"$folder/pipeline.cpp" ;; esac
""")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    built = project.build()
    check(built.generated == ALL and built.compiled == {"pipeline.cpp"}, "what it writes anew is compiled", built)
    old.replace(tool)
    project.build()


def two_folders(given, prefix, work, project):
    other = Project(given, project.source, given.generator, work / "another build", copy=False)
    other.configure(f"-DCMAKE_PREFIX_PATH={prefix}", "-DMICROBATCHES=8")
    other.build()
    nothing_to_do(other, "the first, in another folder")
    check(len(other.generated()) > 6 and other.generated() == project.generated(), "equal bytes from two folders")


def guide(given, prefix, work):
    """The first example of docs/cmake.md, as it stands there."""
    text = (Path(given.sources) / "docs/cmake.md").read_text()
    folder = fresh(work / "guide")
    (folder / "CMakeLists.txt").write_text(re.search(r"```cmake\n(.*?)```", text, re.DOTALL).group(1))
    (folder / "schedules").mkdir()
    (folder / "schedules/order.sluice").write_text('import "std/zb_h1";\n')
    (folder / "main.cpp").write_text('#include "zb_h1.h"\n#include <sluice/Executor.h>\n'
                                     "int main() { return zb_h1::schedule.microbatches == 16 ? 0 : 1; }\n")
    run(given.cmake, "-S", folder, "-B", folder / "build", "-G", given.generator, f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={given.compiler}")
    run(given.cmake, "--build", folder / "build")
    run(folder / "build/train")


def wrong_calls(given, prefix, work):
    function = next(prefix.rglob("SluiceGenerate.cmake"))
    for call, said in (
            ("sluice_generate(x FILE a.sluice)", "sluice_generate\\(x FILE file SCHEDULE schedule ...\\) needs both"),
            ("sluice_generate(x FILE none.sluice SCHEDULE a)", "there is no file .*none.sluice"),
            ("sluice_generate(x FILE a.sluice SCHEDULE a PARAMETERS P)", "PARAMETERS are NAME=VALUE"),
            ("sluice_generate(x FILE a.sluice SCHEDULE a RUNTIME)", "what does this mean\\? RUNTIME")):
        folder = fresh(work / "wrong")
        (folder / "a.sluice").write_text("")
        (folder / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(Wrong LANGUAGES NONE)\n"
            f"add_executable(Sluice::sluice IMPORTED)\n"
            f"include(\"{function}\")\n{call}\n")
        output = run(given.cmake, "-S", folder, "-B", folder / "build", expect=1)
        check(re.search(said, " ".join(output.split())), f"{call} is answered by {said}", output)


def main():
    given = options("--build", "--generator", "--sources")
    work = fresh(given.work)
    # A folder with spaces, for the installation and for the project.
    prefix = install(given.cmake, given.build, work / "a prefix", "Runtime", "Tool")
    project = Project(given, work / "some project", given.generator)
    project.configure(f"-DCMAKE_PREFIX_PATH={prefix}")
    first_build(project)
    nothing_to_do(project, "the first")
    touched_files(project)
    changed_files(project)
    bad_files(project)
    new_tool(project, prefix)
    two_folders(given, prefix, work, project)
    if given.generator == "Ninja":
        guide(given, prefix, work)
        wrong_calls(given, prefix, work)


main()
