#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds, tests and times the backend cuda in one go, on a machine that has the CUDA toolkit, cmake, ninja, gcc and nothing else
# of this project's needs (-DQSA_TOOL=OFF): bench/device.sh [build] [test] [kernels] [sanitize] [time] [peers]
# [golden]: the first three and time by default. peers needs PyTorch. Logs go to $OUT (or build-device/logs), the tables of docs/performance.md are made of them. golden needs the tool:
# its path in QSA, with the plugin beside it. Ends within ten minutes.
set -u
cd "$(dirname "$0")/.." || exit 1
export PATH=$PATH:/usr/local/cuda/bin
build="build-device"
logs=${OUT:-$build/logs}
mkdir -p "$logs"
parts=${*:-build test kernels time}
failed=""

say() { echo "== $* ($SECONDS s)"; }

if [[ " $parts " == *" build "* ]]; then
    say build
    if ! { cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DQSA_TOOL=OFF -DQSA_CUDA=ON &&
        ninja -C $build && ninja -C $build cuda_tests; } >"$logs/build.log" 2>&1; then
        tail -30 "$logs/build.log"
        exit 1
    fi
fi

if [[ " $parts " == *" test "* ]]; then
    say test
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    ctest --test-dir $build -L cuda --timeout 200 >"$logs/ctest.log" 2>&1 || failed="$failed ctest"
    grep -E "Test +#|tests passed|Skipped" "$logs/ctest.log"
    sed -n 's/.*- \(test_[a-z_]*\) (.*/\1/p' "$logs/ctest.log" | while read -r t; do # those that failed
        case $t in
        *_cuda) timeout 100 $build/tests/"${t%_cuda}" --cuda 2>&1 | tail -15 ;;
        *) timeout 100 $build/tests/"$t" 2>&1 | tail -15 ;;
        esac
    done
    $build/tests/test_cuda_fast 2>&1 | grep -E "logits|ids" | tee "$logs/fast.log"
fi

if [[ " $parts " == *" kernels "* ]]; then
    say kernels
    timeout 100 $build/tests/test_cuda_kernels >"$logs/kernels.log" 2>&1 || failed="$failed kernels"
    tail -7 "$logs/kernels.log"
    timeout 60 $build/tests/bench_choose check >"$logs/choose.log" 2>&1 || failed="$failed choose"
    tail -2 "$logs/choose.log"
fi

if [[ " $parts " == *" sanitize "* ]]; then
    for tool in memcheck racecheck initcheck; do
        say "compute-sanitizer $tool"
        timeout 150 compute-sanitizer --tool $tool --error-exitcode 9 $build/tests/test_cuda_kernels --small \
            >"$logs/$tool.log" 2>&1 || failed="$failed $tool"
        tail -3 "$logs/$tool.log"
    done
fi

if [[ " $parts " == *" golden "* ]]; then
    say golden
    for file in tests/golden/*.safetensors; do
        for kv in f32 f16 bf16 i8; do
            for class in strict fast; do
                "$QSA" run "$file" --kv $kv --backend cuda --class $class --json >"$logs/run.json" 2>"$logs/run.err" ||
                    { echo "NOT OK $file $kv $class"; cat "$logs/run.err"; }
                python3 - "$file" $kv $class "$logs/run.json" <<'END'
import json, sys
r = json.load(open(sys.argv[4]))
print(sys.argv[1].split('/')[-1], sys.argv[2], sys.argv[3], 'ok' if r['ok'] else 'NOT OK', r['selection'],
      {t: '%.1e' % e['rel_l2'] for t, e in r['error'].items() if t in ('attn', 'out')})
END
            done
        done
    done | tee "$logs/golden.log"
    grep -q "NOT OK" "$logs/golden.log" && failed="$failed golden"
fi

if [[ " $parts " == *" peers "* ]]; then
    say peers
    timeout 120 python3 bench/peers/peers_cuda.py --bench $build/qsa-bench 2>&1 | tee "$logs/peers.log" | tail -14
fi

if [[ " $parts " == *" time "* ]]; then
    say time
    b() { $build/qsa-bench "$@" --backend cuda --block-keys f16 --json >>"$logs/bench.json" 2>>"$logs/bench.err" || failed="$failed bench"; }
    : >"$logs/bench.json"
    : >"$logs/bench.err"
    b prompt --tokens 1984 --pos 0 --cold
    b prompt --tokens 1984 --pos 30000 --cold
    b prompt --tokens 1984 --pos 30000 --cold --selection walk
    for rows in 1 4 64; do
        b decode --tokens $rows --pos 131072 --graph
        b decode --tokens $rows --pos 131072 --cold --graph
    done
    b decode --tokens 1 --seqs 64 --pos 8192 --graph
    b score-topk --tokens 2048 --pos 30720 --cold
    b score-topk --tokens 2048 --pos 129024 --cold
    for pos in 131072 262144; do
        b score-topk --pos $pos --graph
        b score-topk --pos $pos --cold --graph
    done
    for tokens in 1 8 2048; do b prep --tokens $tokens --pos 30000 --graph; done
    b step --pos 131072 --graph
    b step --pos 131072 --cold --graph
    b step --pos 131072 --graph --class strict
    b decode --pos 131072 --graph --class strict
    cat "$logs/bench.err"
    python3 bench/device_table.py "$logs/bench.json"
fi

say "done"
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
