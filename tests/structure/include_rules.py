"""Which header may include which: the order of the rooms, and its limits."""
import re

ROOMS = ["core", "model", "ops", "grad", "layout", "plan", "policy", "program", "device", "comm", "cost", "simulate",
         "search", "profile", "train", "report"]

# A room never sees these, though they stand above it.
BLIND = {
    "cost": {"device", "comm"},
    "simulate": {"device", "comm"},
    "search": {"device", "comm"},
    "train": {"search"},
}

# What the two umbrellas must not pull in, directly or through other headers.
BEYOND_PLANNING = re.compile(r"cblas\.h|nlohmann/|thread$|cuda|cublas|nvrtc|nccl|mpi\.h")
BEYOND_PARTITA = re.compile(r"cuda(?!/std)|cublas|nvrtc|nccl|mpi\.h")
UMBRELLAS = {"partita/partita.hpp": BEYOND_PARTITA, "partita/planning.hpp": BEYOND_PLANNING}

# The check of programs is independent of plans and lowering: it sees the graph, the program and their words.
CHECK = re.compile(r"partita/program/check(/|\.hpp)")
SEEN_BY_CHECK = re.compile(r"partita/(core/|model/|program/(check/|program\.hpp|words\.hpp))")

WARN_LINES, MOST_LINES = 400, 600

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_of(header):
    parts = header.split("/")
    return parts[1] if len(parts) > 2 else None


def is_inside(header):
    """device/ and comm/ have an inside: what lies in folders below them, such as device/cpu/."""
    return len(header.split("/")) > 3


def judge(includer, included):
    """Why `includer` may not include `included`, or None."""
    if includer in UMBRELLAS:
        return None
    if included in UMBRELLAS:
        return "an umbrella header is for users, not for rooms"
    if CHECK.match(includer) and not SEEN_BY_CHECK.match(included):
        return "the check of programs shares no code with what makes them"
    mine, theirs = room_of(includer), room_of(included)
    if mine is None or theirs is None or mine == theirs:
        return None
    if ROOMS.index(theirs) > ROOMS.index(mine):
        return f"{theirs}/ stands below {mine}/"
    if theirs in BLIND.get(mine, ()):
        return f"{mine}/ does not know {theirs}/"
    if mine == "comm" and theirs == "device" and is_inside(included):
        return "comm/ does not know the inside of device/"
    return None


def findings(headers):
    """headers: {"partita/core/axis.hpp": its text}. Returns (errors, warnings), a line each."""
    errors, warnings = [], []
    ours, others = {}, {}
    for header, text in sorted(headers.items()):
        lines = text.count("\n")
        if lines > MOST_LINES:
            errors.append(f"{header}: {lines} lines, {MOST_LINES} at most: make it two headers")
        elif lines > WARN_LINES:
            warnings.append(f"{header}: {lines} lines: past {WARN_LINES} a header wants to be two")
        # Pairs that open and close a part of a header are included once per part.
        if "#pragma once" not in text and not re.search(r"/(begin|end)_\w+\.hpp$", header):
            errors.append(f"{header}: no #pragma once")
        room = room_of(header)
        if room is not None and room not in ROOMS:
            errors.append(f"{header}: {room}/ is no room")
            continue
        ours[header], others[header] = [], []
        for quote, included in INCLUDE.findall(text):
            if quote == '"':
                errors.append(f'{header}: "{included}": write <partita/...>')
            elif included not in headers:
                others[header].append(included)
                if included.startswith("partita/"):
                    errors.append(f"{header}: <{included}> does not exist")
            else:
                ours[header].append(included)
                if room_of(included) in ROOMS or room_of(included) is None:
                    reason = judge(header, included)
                    if reason:
                        errors.append(f"{header}: <{included}>: {reason}")

    # Rooms point one way; within a room headers must as well.
    state, path = {}, []

    def visit(header):
        state[header] = "open"
        path.append(header)
        for included in ours.get(header, ()):
            if state.get(included) == "open":
                errors.append("cycle: " + " -> ".join(path[path.index(included):] + [included]))
            elif included not in state:
                visit(included)
        path.pop()
        state[header] = "done"

    for header in sorted(ours):
        if header not in state:
            visit(header)

    for umbrella, beyond in UMBRELLAS.items():
        reached, stack = {umbrella: None}, [umbrella]
        while stack:
            header = stack.pop()
            for included in others.get(header, ()):
                if beyond.search(included):
                    errors.append(f"{umbrella} reaches <{included}> through {header}")
            for included in ours.get(header, ()):
                if included not in reached:
                    reached[included] = header
                    stack.append(included)
    return errors, warnings
