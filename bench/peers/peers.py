#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times what else computes this attention on a CPU, beside qsa-bench, in one run on one machine.

Only packages that their ordinary client installs are called; what is not there is listed as missing. Every peer gets
the same task: 24 query heads over 2 KV heads of 256, each row attending 2,048 random cells in blocks of 4 out of POS.
PyTorch's dense attention (no selection) is timed too: it is what an engine without the selection does.

qsa is timed before and after the peers; when the two differ by more than 5 % the machine was not quiet.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

H, G, D, RATIO, BUDGET = 24, 2, 256, 4, 2048


def median_ms(call, seconds):
    """Median of at least 5 calls that take `seconds` in all, after one that is not timed."""
    call()
    times, start = [], time.monotonic()
    while len(times) < 5 or time.monotonic() - start < seconds:
        t = time.monotonic()
        call()
        times.append((time.monotonic() - t) * 1e3)
    return statistics.median(times)


def qsa(args, case, tokens, kv):
    command = [args.bench, case, "--tokens", str(tokens), "--pos", str(args.pos), "--kv", kv,
               "--threads", str(args.threads), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"peers.py: {' '.join(command)}: {ran.stderr.strip()}")
    result = json.loads(ran.stdout)
    return result["ms"]["median"] / tokens, result["kernel"] + ("" if result["fit"] else " (unfit)")


class Torch:
    """scaled_dot_product_attention. The 12 query heads of a KV head are 12 queries of one head: no key is repeated."""

    def __init__(self, args):
        import torch
        self.torch, self.args = torch, args
        torch.set_num_threads(args.threads)
        torch.manual_seed(5)
        self.version = torch.__version__

    def tensors(self, rows, dtype):
        torch, n = self.torch, self.args.pos + rows
        q = torch.randn(G, rows, H // G, D).to(dtype)
        k, v = torch.randn(G, n, D).to(dtype), torch.randn(G, n, D).to(dtype)
        blocks = torch.stack([torch.randperm(self.args.pos // RATIO)[:BUDGET // RATIO].sort().values
                              for _ in range(rows)])
        cells = (blocks[:, :, None] * RATIO + torch.arange(RATIO)).reshape(rows, BUDGET)
        return q, k, v, cells

    def gather(self, rows, dtype):
        """Selected keys and values copied for each row, then dense attention over them."""
        torch, f = self.torch, self.torch.nn.functional.scaled_dot_product_attention
        q, k, v, cells = self.tensors(rows, dtype)

        def call():
            for i in range(rows):
                f(q[:, i], k[:, cells[i]], v[:, cells[i]])
        with torch.inference_mode():
            return median_ms(call, self.args.seconds) / rows

    def mask(self, rows, dtype):
        """All cells, and a mask that leaves the selection."""
        torch, f = self.torch, self.torch.nn.functional.scaled_dot_product_attention
        q, k, v, cells = self.tensors(rows, dtype)
        allowed = torch.zeros(rows, 1, self.args.pos + rows, dtype=torch.bool)
        allowed.scatter_(2, cells[:, None, :], True)
        allowed = allowed.expand(rows, H // G, -1).reshape(rows * (H // G), -1)
        flat = q.reshape(G, rows * (H // G), D)
        with torch.inference_mode():
            return median_ms(lambda: f(flat, k, v, attn_mask=allowed), self.args.seconds) / rows

    def dense(self, rows, dtype):
        """All cells, no selection: another task, the one that the selection saves."""
        torch, f = self.torch, self.torch.nn.functional.scaled_dot_product_attention
        q, k, v, _ = self.tensors(rows, dtype)
        flat = q.reshape(G, rows * (H // G), D)
        with torch.inference_mode():
            return median_ms(lambda: f(flat, k, v), self.args.seconds) / rows


def torch_rows(args, rows, out):
    try:
        peer = Torch(args)
    except Exception as reason:  # pylint: disable=broad-except
        return out(f"torch ({rows} rows)", None, f"missing: {reason}")
    for dtype in (peer.torch.float32, peer.torch.bfloat16):
        for way in ("gather", "mask", "dense"):
            name = f"torch {peer.version} {way} {str(dtype).split('.')[-1]}"
            try:
                out(name, getattr(peer, way)(rows, dtype), getattr(peer, way).__doc__)
            except Exception as reason:  # pylint: disable=broad-except
                out(name, None, f"failed: {reason}")
    return None


def vllm_row(out):
    """vLLM's sparse attention of this model is Triton; its CPU operators are dense paged attention."""
    try:
        import vllm
    except Exception as reason:  # pylint: disable=broad-except
        return out("vllm-cpu", None, f"missing: {reason}")
    import torch
    names = [n for n in ("_C", "_C_cpu", "_C_cache_ops") for _ in [0] if hasattr(torch.ops, n)]
    found = [f"{n}.{o}" for n in names for o in dir(getattr(torch.ops, n)) if "sparse" in o or "qsa" in o]
    return out(f"vllm {vllm.__version__}", None,
               "no CPU operator with a selection" if not found else f"has {' '.join(found)}: not called by this script")


def llama_row(out):
    """Whether the compiled library has this model's graph: its architecture's name is in it then."""
    try:
        import llama_cpp
    except Exception as reason:  # pylint: disable=broad-except
        return out("llama-cpp-python", None, f"missing: {reason}")
    folder = os.path.join(os.path.dirname(llama_cpp.__file__), "lib")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in names:
        if ".so" in name:
            with open(os.path.join(folder, name), "rb") as library:
                data = library.read()
            if b"qwen4exp" in data or b"qwen4_exp" in data:
                return out(f"llama.cpp {llama_cpp.__version__}", None, f"{name} has the graph: not called by this script")
    return out(f"llama.cpp {llama_cpp.__version__}", None, "has no graph of this model")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bench", default="build/qsa-bench", help="the program (build/qsa-bench)")
    parser.add_argument("--pos", type=int, default=30000, help="cells before the first row (30000)")
    parser.add_argument("--tokens", type=int, default=32, help="rows of the prompt case (32)")
    parser.add_argument("--threads", type=int, default=1, help="threads of everything (1)")
    parser.add_argument("--seconds", type=float, default=2, help="time for each measurement (2)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    if args.pos < BUDGET + RATIO or args.tokens < 1 or args.threads < 1:
        parser.error(f"--pos must be {BUDGET + RATIO} or more, --tokens and --threads 1 or more")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    tables = {}
    for case, rows in (("decode", 1), ("prompt", args.tokens)):
        table = tables.setdefault(case, [])

        def out(name, ms, note, table=table):
            table.append({"peer": name, "ms_per_row": ms, "note": note})

        for kv in ("i8", "bf16", "f32"):
            out(f"qsa {kv}", *qsa(args, case, rows, kv))
        torch_rows(args, rows, out)
        out("qsa i8, again", *qsa(args, case, rows, "i8"))
    absent = []
    vllm_row(lambda name, ms, note: absent.append({"peer": name, "note": note}))
    llama_row(lambda name, ms, note: absent.append({"peer": name, "note": note}))
    if args.json:
        print(json.dumps({"pos": args.pos, "threads": args.threads, "rows": tables, "not_timed": absent}))
        return
    for case, table in tables.items():
        print(f"{case}, {1 if case == 'decode' else args.tokens} rows at {args.pos}, {args.threads} thread(s): ms per row")
        for row in table:
            ms = "-" if row["ms_per_row"] is None else f"{row['ms_per_row']:.4g}"
            print(f"  {row['peer']:<34} {ms:>10}  {row['note']}")
    print("not timed")
    for row in absent:
        print(f"  {row['peer']:<34} {'-':>10}  {row['note']}")


if __name__ == "__main__":
    main()
