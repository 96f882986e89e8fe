#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the CPU table of docs/performance.md: every command, its median, spread and share of the nearer roof.

    python3 bench/table.py --bench build/qsa-bench [--kernels] [--only WORD] [--tries 3] [--samples 15]

Each command is tried until a run is fit (its roof moved by no more than 5 %), at most --tries times; the last is printed
with "unfit" otherwise. --kernels adds every usable row of attend, score and screen by name. Standard output is a
Markdown table.
"""
import argparse
import json
import subprocess
import sys

TARGETS = [
    ("prompt --tokens 512 --pos 30000 --class strict", "0.60 of fma"),
    ("prompt --tokens 512 --pos 30000 --class strict --selection walk", ""),
    ("prompt --tokens 512 --pos 30000 --class fast", "0.90 of fma"),
    ("prompt --tokens 512 --pos 30000 --class fast --selection walk", ""),
    ("decode --pos 32768 --class strict", "0.60"),
    ("decode --pos 32768 --class strict --logits wide", "no slower"),
    ("decode --pos 32768 --class fast", ""),
    ("score --pos 262144", "0.70 of read"),
    ("score --pos 262144 --block-keys f16", ""),
    ("topk --pos 262144", "topk <= 0.15 score"),
    ("score-topk --pos 262144", ""),
    ("score-topk --pos 262144 --screen", "2.00 of read"),
    ("step --pos 262144 --against 4096", "differences within 15 %"),
    ("step --pos 262144 --screen", ""),
    ("prep --tokens 1", ""),
    ("prep --tokens 8", ""),
    ("prep --tokens 512", ""),
    ("merge --tokens 1", ""),
    ("prompt --tokens 512 --pos 30000 --class strict --threads 2", ""),
    ("prompt --tokens 512 --pos 30000 --class fast --threads 2", ""),
    ("decode --pos 32768 --seqs 4 --threads 2", ""),
    ("score --pos 262144 --seqs 2 --threads 2", ""),
]
FORMATS = [f"decode --pos 32768 --kv {kv}" for kv in ("f32", "f16", "bf16")]
# Where the time of strict attention goes: without decoding, out of L2, both.
PARTS = ["prompt --tokens 64 --pos 30000 --kv f32", "prompt --tokens 64 --pos 2100", "prompt --tokens 64 --pos 2100 --kv f32",
         "prompt --tokens 64 --pos 2100 --class fast"]
KERNELS = {
    "attend": ("prompt --tokens 64 --pos 30000", ["fma", "avx2", "avx512", "neon"]),
    "attend fast": ("prompt --tokens 64 --pos 30000 --class fast",
                    ["attend_avx2_i16", "attend_avx2_vnni", "attend_avx512_i16", "attend_avx512_vnni", "attend_amx"]),
    "score": ("score --pos 262144", ["fma", "avx2", "avx512", "neon"]),
    "score screened": ("score-topk --pos 262144 --screen",
                       ["screen_avx2", "screen_avx2_vnni", "screen_avx512", "screen_avx512_vnni"]),
}


def run(args, options):
    command = [args.bench] + options.split() + ["--samples", str(args.samples), "--json"]
    result = None
    for _ in range(args.tries):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return None, ran.stderr.strip()
        result = json.loads(ran.stdout)
        if result["fit"]:
            break
    return result, ""


def line(options, target, r):
    ms, detail = r["ms"], r["detail"]
    notes = []
    if "score_ms" in r:
        notes.append(f"topk/score {ms['median'] / r['score_ms']:.3f}")
    if "score_topk_ms" in r and "against" in r:
        a = r["against"]
        step, part = ms["median"] - a["step_ms"], r["score_topk_ms"] - a["score_topk_ms"]
        notes.append(f"step differs by {step:.3f} ms, score-topk by {part:.3f} ms: ratio {step / part:.3f}")
    if "fused_ms" in detail:
        notes.append(f"fused {detail['fused_ms']:.4g} ms")
    if not r["fit"]:
        notes.append(f"unfit: roof moved {100 * detail['moved']:.0f} %")
    roofs = r["roof"]
    notes.append(f"roofs {roofs['fma']:.1f} GFLOP/s, {roofs['dot']:.0f} GOP/s, {roofs['read']:.1f} GB/s")
    return (f"| `{options}` | {r['kernel']} | {ms['median']:.4g} ({ms['min']:.4g}..{ms['max']:.4g}) | "
            f"{r['of_roof']:.2f} of {r['bound']} | {target} | {'; '.join(notes)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/qsa-bench")
    parser.add_argument("--only", default="", help="commands that contain this word")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--kernels", action="store_true", help="every usable row by name, and where the time goes")
    args = parser.parse_args()
    commands = TARGETS + [(f, "") for f in FORMATS]
    if args.kernels:
        commands += [(part, "") for part in PARTS]
        for stage, (case, names) in KERNELS.items():
            commands += [(f"{case} --kernel {stage.split()[0]}={name}", "") for name in names]
    print("| command | kernels | ms: median (min..max) | share | target | same run |")
    print("|---|---|---|---|---|---|")
    for options, target in commands:
        if args.only not in options:
            continue
        result, error = run(args, options)
        print(line(options, target, result) if result else f"| `{options}` | not here: {error} | | | | |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
