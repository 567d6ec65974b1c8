"""Sluice's sources as a part of another project, by FetchContent."""

import re

from projects import Project, check, fresh, options, run


def with_tool(given, work):
    """A tool is at hand: the runtime alone is taken, and LLVM is not looked for."""
    project = Project(given, work / "with a tool", given.generator)
    project.configure(f"-DSLUICE_FOLDER={given.sources}", f"-DSLUICE_EXECUTABLE={given.build}/bin/sluice")
    built = project.build()
    check(built.generated == {"small", "large", "cells"}, "executors are generated", built)
    check("pipeline: 4 devices, 16 microbatches" in project.program(), "and run")
    check(project.build().nothing(), "a second build does nothing")
    leaves_alone(given, project)


def tool_in_tree(given, work):
    """The tool is a part of the build. What the build would do is read, not done: it takes minutes."""
    project = Project(given, work / "tool in tree", "Ninja")
    project.configure(f"-DSLUICE_FOLDER={given.sources}", "-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=OFF",
                      "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=OFF")
    plan = run("ninja", "-C", project.build_folder, "-t", "commands", "all")
    programs = re.findall(r"^: && .* -o (\S+) ", plan, re.MULTILINE)
    check(programs == ["_deps/sluice-build/bin/sluice", "consumer"], f"two programs are built, not {programs}")
    check(plan.find(f" -o {programs[0]} ") < plan.find("generate cpp"), "the tool is built before it generates")
    alone = run("ninja", "-C", project.build_folder, "-t", "commands", "uses_small")
    check("-o _deps/sluice-build/bin/sluice" in alone and "uses_large" not in alone,
          "what needs an executor needs the tool")
    leaves_alone(given, project)


def leaves_alone(given, project):
    """Neither tests nor an installation of Sluice's appear in the project."""
    tests = run("ctest", "--test-dir", project.build_folder, "-N")
    check("Total Tests: 0" in tests, "no tests", tests)
    prefix = project.source / "installed"
    run(given.cmake, "--install", project.build_folder, "--prefix", prefix)
    check(not prefix.exists(), "nothing is installed")
    cache = (project.build_folder / "CMakeCache.txt").read_text()
    check("CMAKE_BUILD_TYPE:STRING=\n" in cache, "the kind of build is the project's affair", cache)


def main():
    given = options("--build", "--generator", "--sources")
    work = fresh(given.work)
    with_tool(given, work)
    if given.generator == "Ninja":
        tool_in_tree(given, work)


main()
