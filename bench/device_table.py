# SPDX-License-Identifier: Apache-2.0
"""The lines of qsa-bench --backend cuda --json as a table: device_table.py FILE."""
import json
import sys

print(f"{'case':10} {'rows':>5} {'seqs':>4} {'pos':>7} {'select':7} {'how':10} {'us':>9} {'min':>9} {'spread':>7} "
      f"{'TFLOP/s':>8} {'copy':>5} {'gather':>6} {'mma':>5}  kernels")
roofs = []
for line in open(sys.argv[1]):
    if not line.strip():
        continue
    r = json.loads(line)
    d = r["detail"]
    us = 1e3 * r["ms"]["median"]
    how = ("cold" if d["caches"] == "cold" else "hot") + (" graph" if r["graph"] else "")
    gather = d["gathered_bytes"] * 1e-9 / (us * 1e-6) / r["roof"]["gather"]
    print(f"{r['case']:10} {r['tokens']:5.0f} {d['seqs']:4.0f} {r['pos']:7.0f} {d.get('selection', '-'):7} {how:10} {us:9.2f} "
          f"{1e3 * r['ms']['min']:9.2f} {100 * d['spread']:5.1f} % {r['gflops'] * 1e-3:8.2f} {d['of_read']:5.2f} {gather:6.2f} "
          f"{d['of_fma']:5.2f}  {r['kernel']}{' strict' if r['class'] == 'strict' else ''}")
    roofs.append((r["roof"]["copy"], r["roof"]["gather"], r["roof"]["mma"]))
for i, name in enumerate(("copy GB/s", "gather out of L2 GB/s", "mma.sync TFLOP/s")):
    column = sorted(x[i] for x in roofs)
    print(f"{name}: median {column[len(column) // 2]:.0f}, {column[0]:.0f} to {column[-1]:.0f}")
