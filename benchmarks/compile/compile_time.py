#!/usr/bin/env python3
"""What a user's program costs to compile: seconds, memory and instantiated templates, by the number of layers.

    benchmarks/compile/compile_time.py            measures what is not known yet, then writes docs/compile-time.md
    benchmarks/compile/compile_time.py --again    measures everything anew
    benchmarks/compile/compile_time.py --report   only writes the page from what is known

Results are kept in build/compile-time.json with a digest of the headers, so that a run that was stopped goes on where
it was, and a change of the headers starts over. A full run takes some ten minutes on two quiet cores. User seconds
are what is compared: wall seconds also hold what else the machine does.
"""
import argparse, hashlib, json, os, re, resource, shutil, subprocess, sys, tempfile, time
from pathlib import Path

here = Path(__file__).resolve().parent
root = here.parent.parent
store = root / "build" / "compile-time.json"
memory_limit = 8 << 30  # bytes; a compile that wants more is reported as such

kinds = {
    "planning.hpp": (1, [0]), "partita.hpp": (6, [0]), "trace": (2, [1, 12, 24, 48, 96, 192]),
    "verify": (3, [1, 12, 24, 48]), "trainer": (4, [1, 12, 96, 192]), "everything": (5, [12]),
}
cuda_kinds = {"trainer on GPUs": (8, [12])}  # where the headers of CUDA and NCCL are
nvcc_kinds = {
    "planning.hpp": (1, [0]), "trace": (2, [1, 12, 96]), "verify": (3, [1, 12]), "kernels, sm_90": (7, [1, 12]),
    "kernels, sm_80+90+100": (7, [12]),
}


def limits_of(compiler):  # as the CMake target sets them
    text = (root / "cmake" / "CompilerLimits.cmake").read_text()
    return re.search(rf"set\(partita_limits_{compiler} ([^)]*)\)", text).group(1).split()


def compilers():
    found = {}
    if path := shutil.which("g++"):
        found["g++"] = [path, "-std=c++20", "-O2", "-c", *limits_of("gnu")]
    for name in ("clang++-19", "clang++"):
        if path := shutil.which(name):
            found["clang++"] = [path, "-std=c++20", "-O2", "-c", *limits_of("clang")]
            break
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if os.path.exists(nvcc):
        found["nvcc"] = [nvcc, "-std=c++20", "-O2", "-c", "-x", "cu", "-Xcudafe",
                         "--max_cost_constexpr_call=1000000000", "-Xcudafe", "--max_depth_constexpr_call=2048",
                         *["-Xcompiler=" + flag for flag in limits_of("gnu")]]
    return found


def kinds_of(compiler):
    if compiler == "nvcc":
        return nvcc_kinds
    cuda_is_there = all(any((Path(p) / h).exists() for p in system_includes()) for h in ("cuda_runtime.h", "nccl.h"))
    return {**kinds, **(cuda_kinds if cuda_is_there else {})}


def flags_of_kind(compiler, kind):
    if compiler != "nvcc":
        return []
    architectures = re.findall(r"\d+", kind) or ["90"]
    return ["--expt-relaxed-constexpr", *[f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]]


def system_includes():
    paths = ("/usr/include/x86_64-linux-gnu/openblas-pthread", "/usr/include/openblas", "/usr/local/cuda/include")
    return ["/usr/include", *[p for p in paths if os.path.isdir(p)]]


def includes():
    return ["-I", str(root / "include"), *[x for p in system_includes()[1:] for x in ("-isystem", p)]]


def digest():
    h = hashlib.sha256()
    for path in sorted([*(root / "include").rglob("*.hpp"), here / "gpt.hpp", here / "program.cpp"]):
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def version_of(command):
    text = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout
    match = re.search(r"release (\d+\.\d+)|(\d+\.\d+\.\d+)", text)
    return (match.group(1) or match.group(2)) if match else "?"


def run(command):
    """User seconds, wall seconds, peak bytes of one process, exit status."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
    errors = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        first = [line for line in errors.splitlines() if "error" in line][:1]
        print("   ", first[0][:160] if first else f"status {child.returncode}", file=sys.stderr)
    return usage.ru_utime, time.monotonic() - begin, usage.ru_maxrss * 1024, child.returncode


def count_instantiations(command, source_flags, directory):
    out = Path(directory) / "trace.o"
    front = [f for f in command if f != "-O2"] + ["-O0", "-emit-llvm", "-ftime-trace", "-ftime-trace-granularity=0"]
    if subprocess.run([*front, *source_flags, "-o", str(out)], capture_output=True).returncode != 0:
        return None
    counts = {"InstantiateClass": 0, "InstantiateFunction": 0}
    for event in json.loads(out.with_suffix(".json").read_text())["traceEvents"]:
        if event["name"] in counts:
            counts[event["name"]] += 1
    return counts["InstantiateClass"], counts["InstantiateFunction"]


def measure(known, again):
    now = digest()
    if again or known.get("digest") != now:
        known = {"digest": now, "points": {}, "versions": {}}
    with tempfile.TemporaryDirectory() as directory:
        for compiler, command in compilers().items():
            known["versions"][compiler] = version_of(command)
            for kind, (number, layer_counts) in kinds_of(compiler).items():
                for layers in layer_counts:
                    key = f"{compiler}/{kind}/{layers}"
                    if key in known["points"]:
                        continue
                    flags = [*flags_of_kind(compiler, kind), f"-DKIND={number}", f"-DLAYERS={layers}", *includes(),
                             str(here / "program.cpp")]
                    user, wall, peak, status = run([*command, *flags, "-o", str(Path(directory) / "program.o")])
                    point = {"user": user, "wall": wall, "peak": peak, "fits": status == 0}
                    if compiler == "clang++" and layers in (0, 12, 96) and status == 0:
                        point["instantiations"] = count_instantiations(command, flags, directory)
                    known["points"][key] = point
                    print(f"{compiler:8} {kind:12} {layers:4} layers  {user:6.1f} s user  {wall:6.1f} s  {peak / 1e9:5.2f} GB", flush=True)
                    store.parent.mkdir(exist_ok=True)
                    store.write_text(json.dumps(known, indent=1))
    return known


def table(known):
    rows = ["| compiler | program | layers | user s | wall s | peak GB | classes, functions instantiated |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for key, p in known["points"].items():
        compiler, kind, layers = key.split("/")
        counts = p.get("instantiations")
        counted = f"{counts[0]:,}, {counts[1]:,}" if counts else ""
        cost = (f"{p['user']:.1f} | {p['wall']:.1f} | {p['peak'] / 1e9:.2f}" if p["fits"] else "over a limit | | ")
        rows.append(f"| {compiler} | {kind} | {layers if layers != '0' else ''} | {cost} | {counted} |")
    return "\n".join(rows)


def picture(known):
    """User seconds over layers, both axes logarithmic, one line a program and compiler."""
    import math
    width, height, left, right, top, bottom = 760, 440, 62, 190, 44, 52
    colours = {"g++": "#1b6ca8", "clang++": "#c8553d", "nvcc": "#5b8e3e"}
    dashes = {"trace": "2 4", "verify": "", "trainer": "8 4"}
    lines = {}
    for key, p in known["points"].items():
        compiler, kind, layers = key.split("/")
        if kind in dashes and p["fits"]:
            lines.setdefault((compiler, kind), []).append((int(layers), p["user"]))
    most = max((s for l in lines.values() for _, s in l), default=10)
    least = min((s for l in lines.values() for _, s in l), default=1)
    low, high = math.floor(math.log2(least)), math.ceil(math.log2(most))
    ticks = [1, 12, 24, 48, 96, 192]
    x = lambda n: left + (width - left - right) * math.log2(n) / math.log2(192)
    y = lambda s: height - bottom - (height - top - bottom) * (math.log2(s) - low) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="24" font-size="15" fill="#222">Seconds to compile a GPT-2 by its layers</text>']
    for e in range(low, high + 1):
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(2 ** e):.1f}" y2="{y(2 ** e):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 8}" y="{y(2 ** e) + 4:.1f}" text-anchor="end" fill="#444">{2.0 ** e:g} s</text>')
    for n in ticks:
        out.append(f'<line x1="{x(n):.1f}" x2="{x(n):.1f}" y1="{top}" y2="{height - bottom}" stroke="#eee"/>')
        out.append(f'<text x="{x(n):.1f}" y="{height - bottom + 20}" text-anchor="middle" fill="#444">{n}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle" fill="#444">layers</text>')
    labels = []
    for (compiler, kind), points in lines.items():
        points.sort()
        path = " ".join(f"{x(n):.1f},{y(s):.1f}" for n, s in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colours[compiler]}" stroke-width="2" stroke-dasharray="{dashes[kind]}"/>')
        out += [f'<circle cx="{x(n):.1f}" cy="{y(s):.1f}" r="3" fill="{colours[compiler]}"/>' for n, s in points]
        labels.append((y(points[-1][1]), x(points[-1][0]), f"{kind}, {compiler}", colours[compiler]))
    labels.sort()
    places, column = [], width - right + 18
    for at, _, _, _ in labels:  # one under the other, as near to their line as there is room
        places.append(max(at, places[-1] + 16 if places else top))
    over = places[-1] - (height - bottom) if places else 0
    if over > 0:
        places = [p - over for p in places]
    for place, (at, end, words, colour) in zip(places, labels):
        out.append(f'<line x1="{end + 5:.1f}" y1="{at:.1f}" x2="{column - 4}" y2="{place:.1f}" stroke="{colour}" stroke-opacity="0.35"/>')
        out.append(f'<text x="{column}" y="{place + 4:.1f}" fill="{colour}">{words}</text>')
    return "\n".join([*out, "</svg>", ""])


def report(known):
    page = root / "docs" / "compile-time.md"
    drawn = root / "docs" / "pictures" / "compile-time.svg"
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_text(picture(known))
    text = page.read_text() if page.exists() else "<!-- table -->\n<!-- end of table -->\n"
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    fresh = f"<!-- table -->\n{versions}; `-O2`, one file, compile only.\n\n{table(known)}\n<!-- end of table -->"
    page.write_text(re.sub(r"<!-- table -->.*<!-- end of table -->", lambda _: fresh, text, flags=re.S))
    print(table(known))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    known = json.loads(store.read_text()) if store.exists() else {"points": {}, "versions": {}}
    if not options.report:
        known = measure(known, options.again)
    report(known)


main()
