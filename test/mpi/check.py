#!/usr/bin/env python3
"""Starts programs of this folder under mpirun and checks what every process says of its run.

usage: check.py SCENARIO --mpirun MPIRUN --tokens MpiTokens --training MpiTraining --data iris.csv
       --naive naive.sluice [--sluice SLUICE]
Exit code 77: the scenario cannot be run here, and why.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("scenario")
for name in ("mpirun", "tokens", "training", "data", "naive", "sluice"):
    parser.add_argument("--" + name)
options = parser.parse_args()
work = tempfile.mkdtemp(prefix="sluice-mpi-")


def fail(text):
    sys.exit(f"{options.scenario}: {text}")


def skip(text):
    print(f"{options.scenario}: skipped: {text}")
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(77)


class Said:
    """One line of a process: what happened when."""

    def __init__(self, line):
        rank, time, self.what, self.text = re.fullmatch(r"@(\d+) (\S+) (\S+) ?(.*)", line).groups()
        self.rank, self.time = int(rank), float(time)


def run(processes, program, *words, mpirun=(), prefix=(), limit=180):
    """Exit code and output of mpirun, and what the processes said, by rank."""
    log = tempfile.mkdtemp(dir=work)
    environment = dict(os.environ, SLUICE_TEST_LOG=log, OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [*prefix, options.mpirun, "--oversubscribe", "-x", "SLUICE_TEST_LOG", *mpirun, "-n",
               str(processes), program, *map(str, words)]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=limit)
    except subprocess.TimeoutExpired as late:
        fail(f"{' '.join(command)} did not end within {limit} s: {late.output}")
    said = []
    for name in sorted(os.listdir(log), key=int):
        with open(os.path.join(log, name), encoding="utf-8") as lines:
            said += [Said(line.rstrip("\n")) for line in lines]
    return done.returncode, done.stdout, said


def demand(holds, what, said=(), output=""):
    if not holds:
        for entry in said:
            print(f"@{entry.rank} {entry.time:.3f} {entry.what} {entry.text}")
        print(output)
        fail(what)


def tokens(processes):
    code, output, said = run(processes, options.tokens, "tokens")
    for kind in ("synchronous", "buffered"):
        counts = [entry.text for entry in said if entry.what == kind]
        demand(counts == ["13 schedules"] * processes, f"{kind} sends: {counts}", said, output)
    demand(code == 0, f"mpirun ends with {code}", said, output)


def training():
    code, output, _ = run(4, options.training, options.data)
    demand(output.count(" same bits, ") == 20 and "DIFFERENT" not in output and code == 0,
           "training over MPI differs from training over threads", (), output)
    hashes = set(re.findall(r"@\d (?:gpipe|uneven) .*hash (\w+)", output))
    demand(len(hashes) == 8, "every stage and batch has gradients of its own", (), output)


# mpirun ends all others soon after the first process that fails, however far they are with their own report. Left to
# itself every process has at least been told; with this it lets each of them end by itself.
ALONE = ("--enable-recovery",)
LIMIT = 10  # seconds; what was seen is printed


def ends(said, survivors, pattern, what=("told",), output=""):
    """All survivors say one of `what` within LIMIT seconds of the accident: their reports, by rank."""
    reports = [entry for entry in said if entry.what in what and entry.rank in survivors]
    demand([entry.rank for entry in reports] == sorted(survivors), "not everybody has reported", said, output)
    for entry in reports:
        demand(re.search(pattern, entry.text), f"the report does not match {pattern}", said, output)
    accident = [entry.time for entry in said if entry.what == "accident"]
    if accident:
        slowest = max(entry.time for entry in reports) - accident[0]
        print(f"{options.scenario}: the last of {len(reports)} processes reported {slowest * 1e3:.1f} ms after")
        demand(slowest < LIMIT, f"that took {slowest:.2f} s", said, output)
    return [entry.text for entry in reports]


def accident(kind, worker, row, step, limit_ms=5000, mpirun=(), prefix=(), processes=4, pattern=None):
    code, output, said = run(processes, options.tokens, kind, worker, row, step, limit_ms, mpirun=mpirun,
                             prefix=prefix)
    survivors = [rank for rank in range(processes) if rank != worker]
    reports = ends(said, survivors, pattern or rf"one_f_one_b, device {worker}, .*: its process \(\d+ on host \S+\)"
                   rf" has ended without finishing; .*device \d at .*, waits for \w+\(\d, \d+\) with device \d",
                   ("told",) if mpirun[:1] == ALONE else ("known",), output)
    if mpirun[:1] != ALONE: # with which mpirun counts nothing as its failure
        demand(code != 0, "mpirun takes that for success", said, output)
    if worker != 0:
        demand(len(set(reports)) == 1, "reports differ", said, output)


def kill():
    for worker, row, step in ((2, 5, 1), (3, 0, 0), (1, 40, 2), (2, 21, 3)):
        for mpirun in ((), ALONE):
            accident("kill", worker, row, step, mpirun=mpirun)


def killFirst():
    for row, step in ((5, 1), (0, 0)):
        accident("kill", 0, row, step, mpirun=ALONE,
                 pattern=r"one_f_one_b, device 0, .*: its process \(\d+ on host \S+\) has ended without finishing")


def killOverTcp():
    # Open MPI 4.1 reports a closed connection to its mpirun from inside MPI_Test, and waits for it; mpirun lies
    # in wait for a second itself. So a worker may not come back, but every process knows.
    accident("kill", 2, 5, 1, mpirun=("--mca", "btl", "tcp,self"))
    accident("kill", 2, 5, 1, mpirun=(*ALONE, "--mca", "btl", "tcp,self"))


def throws():
    _, output, said = run(4, options.tokens, "throws")
    texts = [entry.text for entry in said if entry.what == "throws"]
    demand(len(texts) == 4 and len({text.split(",")[0] for text in texts}) == 1, "not everybody says the same", said,
           output)
    right = int(texts[0].split()[0])
    slowest = max(float(text.split()[-2]) for text in texts)
    print(f"throws: {right} throws, the slowest run ended after {slowest * 1e3:.1f} ms")
    demand(right == 74 and slowest < 5, "a throw is not reported everywhere", said, output)

    _, output, said = run(4, options.tokens, "throw", 1, 4, 1, 5000, mpirun=ALONE)
    reports = ends(said, range(4), r"^schedule one_f_one_b, device 1, forward\(1, 1\), row 4, step 1: no more memory$",
                   ("told", "thrown"), output)
    demand(len(set(reports)) == 1, "reports differ", said, output)
    nested = [entry.rank for entry in said if entry.what == "thrown"]
    demand(nested == [1], "the exception itself is nested where it was thrown, and only there", said, output)


def stop():
    accident("stop", 2, 5, 1, 600,
             pattern=r"device 2, .*: its process \(\d+ on host \S+\) has not been heard of for 1000 ms; .*"
             r"device 3 at .*, waits for recv_activation\(3, \d\) with device 2")


def between():
    _, output, said = run(4, options.tokens, "between", mpirun=ALONE)
    ends(said, (0, 2, 3), r"device 1, update\(1\), .*: its process \(\d+ on host \S+\) has ended without finishing",
         output=output)


def leave():
    for gone in (2, 0):
        _, output, said = run(4, options.tokens, "leave", gone, mpirun=ALONE)
        ends(said, [rank for rank in range(4) if rank != gone],
             rf"device {gone}, .*: its process \(\d+ on host \S+\) has ended its executor before this run",
             output=output)


def mismatch():
    _, output, said = run(4, options.tokens, "mismatch", 0)
    texts = [entry.text for entry in said if entry.what == "otherwise"]
    demand(len(texts) == 4 and "process 1 runs another schedule than process 0: digest other instead of same" in
           texts[0] and "process 0 runs another schedule than this one" in texts[1], "another schedule", said, output)
    _, output, said = run(4, options.tokens, "mismatch", 1)
    texts = {entry.text for entry in said if entry.what == "otherwise"}
    demand(texts == {"the schedule has 5 workers (devices × replicas) and MPI 4 processes: start it with mpirun -n 5"},
           "too few processes", said, output)


def crossed():
    _, output, said = run(4, options.tokens, "crossed", mpirun=ALONE)
    reports = ends(said, range(4), r"no progress for 400 ms \| .*device 0 at send_activation\(0, 0\), row 3, step 0, "
                   r"waits for recv_gradient\(0, 0\) with device 1 .*cycle: device 0 -> 1 -> 0", output=output)
    demand(len(set(reports)) == 1, "reports differ", said, output)


def naive():
    _, output, said = run(4, options.tokens, "naive", options.naive, mpirun=ALONE)
    demand([entry.rank for entry in said if entry.what == "buffered"] == [0, 1, 2, 3], "buffered sends complete", said,
           output)
    found = [entry.text for entry in said if entry.what == "cycle"]
    cycle = re.findall(r"device (\d) stands at ([^;]+); ", found[0] if found else "")
    demand(len(cycle) > 1, "the compiler finds no cycle under synchronous sends", said, output)
    walk = " -> ".join([device for device, _ in cycle] + [cycle[0][0]])
    reports = ends(said, range(4), rf"no progress for 400 ms .* cycle: device {walk}$", output=output)
    for device, op in cycle:
        demand(f"device {device} at wait {op}, row " in reports[0] and f"waits for {op} with device" in reports[0],
               f"the report does not say that device {device} stands at {op}", said, output)
    if options.sluice:
        checked = subprocess.run([options.sluice, "check", options.naive], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, check=False).stdout
        stands = re.findall(r"note: device (\d) stands at (\w+\(\d, \d\))", checked)
        demand("stuck under rendezvous" in checked and sorted(stands) == sorted(cycle),
               f"sluice check names another cycle: {stands}, not {cycle}", said, checked)


class Hosts:
    """Three hosts of one machine: network namespaces at one bridge. A script stands in for ssh."""

    names = ["sluice-a", "sluice-b", "sluice-c"]
    bridge = "sluice-br"

    def __enter__(self):
        self.remove()
        if os.geteuid() != 0 or shutil.which("ip") is None:
            skip("network namespaces need root and iproute2")
        try:
            self.ip("link", "add", self.bridge, "type", "bridge")
            self.ip("addr", "add", "10.77.0.254/24", "dev", self.bridge)
            self.ip("link", "set", self.bridge, "up")
            for number, name in enumerate(self.names, 1):
                self.ip("netns", "add", name)
                self.ip("link", "add", f"slv{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
                self.ip("link", "set", f"slv{number}", "master", self.bridge, "up")
                self.ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
                self.ip("-n", name, "link", "set", "eth0", "up")
                self.ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            self.remove()
            skip(f"no network namespaces here: {' '.join(error.cmd)}: {error.stderr.strip()}")
        return self

    def __exit__(self, *_):
        self.remove()

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def remove(self):
        if shutil.which("ip") is None:
            return
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, check=False)

    def mpirun(self):
        """mpirun on the first host starts its daemons on the others by a script in place of ssh."""
        agent = os.path.join(work, "agent")
        with open(agent, "w", encoding="utf-8") as script:
            script.write('#!/bin/sh\n# agent [options] HOST COMMAND…\nwhile case "$1" in -*) true ;; *) false ;; esac; '
                         'do shift; done\nhost=$1\nshift\n'
                         'case "$host" in 10.77.0.1) n=sluice-a ;; 10.77.0.2) n=sluice-b ;; *) n=sluice-c ;; esac\n'
                         'exec ip netns exec "$n" unshare --uts sh -c "hostname $n; $*"\n')
        os.chmod(agent, 0o755)
        return ("--host", "10.77.0.1:2,10.77.0.2:1,10.77.0.3:1", "--mca", "plm_rsh_agent", agent, "--mca", "btl",
                "tcp,self", "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include",
                "10.77.0.0/24", "--mca", "plm_rsh_no_tree_spawn", "1")

    prefix = ("ip", "netns", "exec", "sluice-a")


def hosts():
    with Hosts() as three:
        words = three.mpirun()
        code, output, said = run(4, options.tokens, "tokens", mpirun=words, prefix=three.prefix)
        counts = [entry.text for entry in said if entry.what in ("synchronous", "buffered")]
        demand(counts == ["13 schedules"] * 8 and code == 0, "tokens over three hosts", said, output)
        accident("kill", 3, 9, 1, mpirun=words, prefix=three.prefix)
        accident("kill", 1, 9, 1, mpirun=words, prefix=three.prefix)


scenarios = {"tokens4": lambda: tokens(4), "tokens8": lambda: tokens(8), "training": training, "throws": throws,
             "kill": kill, "killFirst": killFirst, "killOverTcp": killOverTcp, "stop": stop, "between": between,
             "leave": leave, "mismatch": mismatch, "crossed": crossed, "naive": naive,
             "hosts": hosts}
scenarios[options.scenario]()
shutil.rmtree(work, ignore_errors=True)
