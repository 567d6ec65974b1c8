"""Reads a graph of `simulate -o x.dot` by the grammar of the DOT language, as far as that goes: one digraph of
subgraphs, nodes, edges and attributes. Every edge joins nodes that are declared, there is no cycle, labels
have no open quotes, and what is bold is one chain. Exits 1 at the first thing that is wrong."""
import re
import sys


def check(holds, *words):
    if not holds:
        sys.exit("wrong: " + " ".join(str(word) for word in words))


text = open(sys.argv[1], encoding="utf-8").read()
token = re.compile(r'\s*("(?:[^"\\]|\\.)*"|->|[{}\[\];,=]|[A-Za-z_0-9.]+)')
tokens, at = [], 0
while text[at:].strip():
    found = token.match(text, at)
    check(found, "no token at", repr(text[at : at + 40]))
    tokens.append(found[1])
    at = found.end()
at = 0


def take(expected=None):
    global at
    check(at < len(tokens), "the text ends too early")
    at += 1
    check(expected in (None, tokens[at - 1]), "expected", expected, "before", tokens[at - 1 : at + 5])
    return tokens[at - 1]


def attributes():
    given = {}
    while at < len(tokens) and tokens[at] == "[":
        take("[")
        while tokens[at] != "]":
            name = take()
            take("=")
            given[name] = take()
            if tokens[at] == ",":
                take()
        take("]")
    return given


nodes, edges, clusters = {}, [], []


def statements():
    take("{")
    while tokens[at] != "}":
        word = take()
        if word == ";":
            continue
        if word == "subgraph":
            clusters.append(take())
            statements()
        elif word in ("node", "edge", "graph"):
            attributes()
        elif tokens[at] == "=":
            take("=")
            take()
        elif tokens[at] == "->":
            take("->")
            edges.append((word, take(), attributes()))
        else:
            check(word not in nodes, "declared twice:", word)
            nodes[word] = attributes()
    take("}")


take("digraph")
take()
statements()
check(at == len(tokens), "text behind the graph")
check(len(set(clusters)) == len(clusters), "clusters of one name")
check(all(c.startswith("cluster_") for c in clusters), "a subgraph that is no box")
into = {}
for a, b, given in edges:
    check(a in nodes and b in nodes, "an edge of nothing:", a, b)
    into.setdefault(b, []).append(a)
    check(re.fullmatch(r'"#[0-9a-f]{6}"', given["color"]), "color", given)
check(len({(a, b) for a, b, _ in edges}) == len(edges), "the same edge twice")

# Kahn: all nodes can be taken off.
left = {node: len(into.get(node, [])) for node in nodes}
ready, gone = [node for node in nodes if left[node] == 0], 0
out = {}
for a, b, _ in edges:
    out.setdefault(a, []).append(b)
while ready:
    node, gone = ready.pop(), gone + 1
    for b in out.get(node, []):
        left[b] -= 1
        if left[b] == 0:
            ready.append(b)
check(gone == len(nodes), "a cycle")

bold = {node for node, given in nodes.items() if given.get("penwidth") == "3"}
chain = [(a, b) for a, b, given in edges if given.get("penwidth") == "3"]
check(all(a in bold and b in bold for a, b in chain), "a bold edge between plain nodes")
check(len({b for _, b in chain}) == len(chain) == len({a for a, _ in chain}), "the critical path forks")
if "--part" not in sys.argv:
    graphs = sum(re.fullmatch(r"cluster_\d+", c) is not None for c in clusters)
    check(len(chain) == len(bold) - graphs, "the critical path is torn:", len(chain), len(bold))
kinds = {}
for _, _, given in edges:
    kind = given.get("label", '"order"').strip('"').split("\\n")[0]
    kinds[kind] = kinds.get(kind, 0) + 1
print(f"{len(nodes)} nodes, {len(clusters)} boxes, bold {len(bold)};", *[f"{k} {n}" for k, n in sorted(kinds.items())])
