# SPDX-License-Identifier: Apache-2.0
"""PyTorch's attention beside qsa's on one GPU, in one run, at the real geometry: peers_cuda.py [--bench build-device/qsa-bench].

dense     scaled_dot_product_attention over all cells (no selection): what a model without QSA pays
gather    the selected rows copied together, then dense attention over them, as engines without a QSA kernel do
Prompts flush L2 before each call; decode replays a graph of 20 calls. bf16 cache; qsa's is i8 with f16 block keys.
"""
import argparse
import json
import subprocess

import torch
import torch.nn.functional as F

H, G, D, SELECTED = 24, 2, 256, 2048
flush = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")


def median(values):
    return sorted(values)[len(values) // 2]


def cold_ms(call, samples=9):
    call()
    times = []
    for i in range(samples):
        flush.fill_(i)
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
    return median(times)


def graph_ms(call, samples=15, calls=20):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    times = []
    for _ in range(samples):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        graph.replay()
        a.record()
        graph.replay()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / calls)
    return median(times)


def qsa_ms(bench, *options):
    out = subprocess.run([bench, *options, "--backend", "cuda", "--block-keys", "f16", "--json"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)["ms"]["median"]


def cache(cells):
    return (torch.randn(1, G, cells, D, dtype=torch.bfloat16, device="cuda") for _ in range(2))


def gathered(q, k, v, ids):
    """q [T][H][D], ids [T][G][n] cells: each row over its own cells."""
    rows = q.shape[0]
    index = ids[..., None].expand(rows, G, ids.shape[2], D)
    ks = torch.gather(k.expand(rows, -1, -1, -1), 2, index)
    vs = torch.gather(v.expand(rows, -1, -1, -1), 2, index)
    return F.scaled_dot_product_attention(q[:, :, None], ks, vs, enable_gqa=True)


def random_ids(rows, cells):
    scores = torch.rand(rows, cells // 4, device="cuda")
    blocks = scores.topk(SELECTED // 4, dim=1).indices.sort(dim=1).values
    ids = (blocks[..., None] * 4 + torch.arange(4, device="cuda")).reshape(rows, 1, SELECTED)
    return ids.expand(rows, G, SELECTED)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default="build-device/qsa-bench")
    bench = parser.parse_args().bench
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print(f"{'case':36} {'qsa ms':>9} {'torch ms':>9} {'ratio':>6}  torch's way")

    def line(case, ours, theirs, way):
        print(f"{case:36} {ours:9.4f} {theirs:9.4f} {theirs / ours:6.2f}  {way}", flush=True)

    q = torch.randn(1, H, 1984, D, dtype=torch.bfloat16, device="cuda")
    k, v = cache(1984)
    ours = qsa_ms(bench, "prompt", "--tokens", "1984", "--pos", "0", "--cold")
    line("prompt, 1984 rows at 0", ours, cold_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)), "dense causal")
    k, v = cache(31984)
    for selection in ("random", "walk"):
        ours = qsa_ms(bench, "prompt", "--tokens", "1984", "--pos", "30000", "--cold", "--selection", selection)
        line(f"prompt, 1984 rows at 30000, {selection}", ours, cold_ms(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), 5), "dense over all cells")
    rows = q[0].transpose(0, 1).contiguous()
    ids = random_ids(128, 30000)
    line("the same, gathered", ours, cold_ms(lambda: gathered(rows[:128], k, v, ids), 5) * 1984 / 128, "gather, 128 rows at a time")
    k, v = cache(131072)
    for count in (1, 4, 64):
        some = rows[:count]
        ids = random_ids(count, 131072)
        ours = qsa_ms(bench, "decode", "--tokens", str(count), "--pos", "131072", "--graph")
        line(f"decode, {count} rows at 131072, graph", ours, graph_ms(lambda: gathered(some, k, v, ids)), "gather")
        if count == 1:
            line("decode, 1 row at 131072, graph", ours, graph_ms(lambda: F.scaled_dot_product_attention(some[:, :, None], k, v, enable_gqa=True)), "dense over all cells")


main()
