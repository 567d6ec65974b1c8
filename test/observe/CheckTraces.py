"""Reads what WriteTraces wrote with Python's own JSON reader and checks every trace against its tables:
events equal rows, slices of a track do not overlap, both ends of a message are there and a receive ends after
its send began, times are microseconds of nanosecond resolution. Exits 1 naming what is wrong."""
import collections, decimal, json, pathlib, sys

OPERANDS = {"skip_input", "skip_output", "carry", "weights", "factor"}
JOINT = {"reduce", "reduce_tied", "norm", "unshard"}


def check(trace, rows):
    other = trace["otherData"]
    assert (other["producer"], other["kind"]) == ("sluice", "measured"), other
    first, steps = rows["first_step"], rows["steps"]
    assert (other["first_step"], other["steps"]) == (first, steps), other
    assert other["dropped"] == 0 and other["unfinished"] == 0, other
    devices, replicas = len(rows["devices"]), other["replicas"]
    assert other["devices"] == devices
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["ph"] for event in trace["traceEvents"]} == {"X", "M"}

    for event in events:
        args = event["args"]
        # Whole nanoseconds as microseconds with three decimals, no later than a minute after the first event.
        for key in ("ts", "dur"):
            assert event[key].as_tuple().exponent == -3 and 0 <= event[key] < 60_000_000, event
        assert event["pid"] == 1 + args["replica"] and args["replica"] < replicas, event
        assert first <= args["step"] < first + steps, event
        op, stage, microbatch, _ = rows["devices"][args["device"]][args["row"]]
        wanted = f"{op}({stage}" + (f", {microbatch})" if microbatch >= 0 else ")")
        assert event["name"].removeprefix("wait ") == wanted, (event, wanted)
        assert args.get("microbatch", -1) == microbatch and args["stage"] == stage, event
    assert min(event["ts"] for event in events) == 0

    # Every row of every device once a step, in order, and nothing else.
    own = collections.defaultdict(list)
    for event in events:
        if event["cat"].startswith("op,"):
            assert event["cat"] == "op," + event["name"].split("(")[0], event
            assert event["tid"] == 2 + event["args"]["device"], event
            own[event["pid"], event["tid"]].append(event)
    for device, table in enumerate(rows["devices"]):
        wanted = [(step, row) for step in range(first, first + steps)
                  for row, (op, *_) in enumerate(table) if op not in OPERANDS | {"wait"}]
        seen = [(event["args"]["step"], event["args"]["row"]) for event in own[1, 2 + device]]
        assert seen == wanted, (device, seen[:5], wanted[:5])

    # A track's slices follow each other; only joint ops hold waits.
    tracks = collections.defaultdict(list)
    for event in events:
        tracks[event["pid"], event["tid"]].append(event)
    for track, slices in tracks.items():
        around = None
        for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
            begin, end = event["ts"], event["ts"] + event["dur"]
            if around and begin < around["ts"] + around["dur"]:
                assert end <= around["ts"] + around["dur"], ("overlap", track, around, event)
                assert event["cat"] == "wait" and around["name"].split("(")[0] in JOINT, (around, event)
            else:
                around = event

    # Messages: the n-th send of a channel with its n-th receive.
    ends = collections.defaultdict(dict)
    for event in events:
        if not event["cat"].startswith("message,"):
            continue
        args, op = event["args"], event["cat"].split(",")[1]
        assert [args["from_device"], args["to_device"]] == rows["channels"][args["channel"]], event
        assert args["device"] == args["from_device" if op.startswith("send") else "to_device"], event
        assert event["tid"] >= 2 + devices, event
        key = event["pid"], args["channel"], args["number"]
        assert op[:4] not in ends[key], ("twice", event)
        ends[key][op[:4]] = event
    wanted = steps * sum(op.startswith(("send_", "recv_")) for table in rows["devices"] for op, *_ in table)
    assert sum(map(len, ends.values())) == wanted, (sum(map(len, ends.values())), wanted)
    for key, pair in ends.items():
        send, receive = pair["send"], pair["recv"]
        assert receive["ts"] + receive["dur"] > send["ts"], ("received before it was sent", send, receive)
        assert send["ts"] + send["dur"] > receive["ts"], ("a rendezvous that ends too early", send, receive)
        for key in ("microbatch", "step"):
            assert send["args"][key] == receive["args"][key], (send, receive)
    # Every wait stands before the end of what it is for.
    waits = sum(event["cat"] == "wait" for event in events)
    assert waits > 0 or devices == 1
    return len(events)


def main():
    folder = pathlib.Path(sys.argv[1])
    traces = sorted(folder.glob("*.trace.json"))
    assert len(traces) == 6, traces
    for path in traces:
        trace = json.loads(path.read_text(), parse_float=decimal.Decimal)
        rows = json.loads(pathlib.Path(str(path).replace(".trace.", ".rows.")).read_text())
        print(f"{path.name}: {check(trace, rows)} events")


main()
