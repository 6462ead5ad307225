#!/usr/bin/env bash
# Everything that needs GPUs, in one run of at most ten minutes on four of them: contract and kernel tests, collectives,
# numerics against PyTorch, memory of run against plan, step times, the probe, plan against run, over-allocation. On
# request alone: steps in a CUDA graph against the same steps without (five minutes), what leaving copies out is worth
# (six minutes), and fp8 GEMMs against bfloat16's (six minutes).
# Prints one table; logs and JSON stay in the output folder. Parts that find no time left are listed as skipped.
#
#   tools/gpu_suite.sh BIN OUT [GPUS] [SECONDS] [PART...]
#
# BIN: folder with foreshard, foreshard-gpu and the test programs (test_gpu_cuda, …). PART: contract collectives numerics
# memory probe plan step overallocation (default: all of these), graph, copies, float8. Environment: PYTHON (default python3), FORESHARD_TORCH_SCRIPT: a
# script that trains with FSDP2 under torchrun, for step times and reserved memory beside PyTorch's. It takes
#   --model llama-8b|mlp --batch N --seq N        mlp: that of pytorch#147168 in float32, four layers of dim 10240
#   --mp bf16                                     parameters in bfloat16, float32 reduction
#   --opt adam|adam-fused --reshard true|false    default adam, true
#   --symm NCCL --zero-cta 1                      gathers in symmetric memory, without SMs
#   --fwd N --bwd N                               explicit prefetch
#   --async-op 0|1 --record-stream 0|1            async unshard; record_stream in place of references kept; default 0
#   --compile 0|1 --graph 0|1                     blocks compiled; forward and backward replayed from one CUDA graph
#   --trace 0|1                                   profile a step too; the suite gives 0
#   --out FOLDER --name NAME                      writes FOLDER/NAME.json (rank 0)
# NAME.json: step_ms_median, and memory_steps, the first steps of the process in order, each with
# 'reserved_bytes.all.peak' (torch.cuda.memory_stats, its peak since the step's start).
set -u
BIN=$(readlink -f "${1:?folder of the programs}") OUT=${2:?folder for results}
GPUS=${3:-4} LIMIT=${4:-580}
shift $(($# < 4 ? $# : 4))
PARTS=${*:-contract collectives numerics memory probe plan step overallocation}
PYTHON=${PYTHON:-python3}
HERE=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")")
mkdir -p "$OUT"
OUT=$(readlink -f "$OUT")
: >"$OUT/table"
START=$SECONDS

left() { echo $((LIMIT - (SECONDS - START))); }
row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" | tee -a "$OUT/table"; }

# part NAME: whether it is wanted.
part() { case " $PARTS " in *" $1 "*) true ;; *) false ;; esac; }

# try SECONDS NAME COMMAND…: one row, ok by its exit status; its last line as detail. Output in OUT/NAME.{out,log}.
try() {
  local seconds=$1 name=$2 begin=$SECONDS rc detail
  shift 2
  if [ "$(left)" -lt 10 ]; then
    row "$name" skipped 0 "no time left"
    return 1
  fi
  [ "$seconds" -le "$(left)" ] || seconds=$(left)
  timeout -k 5 "$seconds" "$@" >"$OUT/$name.out" 2>"$OUT/$name.log"
  rc=$?
  detail=$(tail -n 1 "$OUT/$name.log" | cut -c1-100)
  if [ $rc -eq 0 ]; then row "$name" ok $((SECONDS - begin)) "${DETAIL:-}"; else row "$name" "FAIL $rc" $((SECONDS - begin)) "$detail"; fi
  return $rc
}

# digest NAME PYTHON-EXPRESSION: a row from OUT/NAME.out's JSON `j`; the expression gives (ok, text). One that raises
# fails.
digest() {
  "$PYTHON" - "$OUT/$1.out" "$2" >"$OUT/$1.digest" 2>&1 <<'PYTHON' || printf 'FAIL\t%s\n' "$(tail -n 1 "$OUT/$1.digest")" >"$OUT/$1.digest"
import json, sys
j = json.load(open(sys.argv[1]))
ok, text = eval(sys.argv[2])
print(("ok" if ok else "FAIL") + "\t" + text)
PYTHON
  row "$1" "$(cut -f1 "$OUT/$1.digest" | head -1)" 0 "$(cut -f2 "$OUT/$1.digest" | tail -1)"
}

run() { # run NAME SECONDS ARGUMENTS…: foreshard run --json
  local name=$1 seconds=$2
  shift 2
  try "$seconds" "$name" "$BIN/foreshard" run "$@" --gpus "$GPUS" --json --quiet
}

TINY="llama-tiny --batch 2 --seq 1024 --param-dtype bfloat16"
MLP="mlp --dim 4096 --layers 4 --batch 4"
FUSED="--optimizer adam-fused"
OWN="--all-gather low-contention --reduce-scatter low-contention"
# What copies and waits are left out: docs/own_program.md.
LEAN="--all-gather-layout parameter-contiguous --reduce-scatter-input gradients --optimizer-overlap forward"
WRITTEN="--all-gather-input optimizer"
LLAMA_1B="llama-1b --batch 1 --seq 512 --param-dtype bfloat16 --reduce-dtype float32"
LLAMA_8B="llama-8b --batch 1 --param-dtype bfloat16 --reduce-dtype float32 --kernels fused"

if part contract; then
  for test in test_gpu_cuda test_gpu_kernels; do try 90 "$test" "$BIN/$test"; done
fi
if part collectives; then
  try 120 test_gpu_collectives "$BIN/test_gpu_collectives"
fi

if part memory; then
  i=0
  while read -r options; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    run "memory$i" 60 $options --steps 3 --no-record &&
      digest "memory$i" "(lambda d: (d['memory_equal'] or d['memory_equal_at_addresses'] is True, 'reserved %d B, plan %+d B; allocated %+d B%s: $options' % (j['peak_reserved_bytes'], d['peak_reserved_bytes'], d['peak_allocated_bytes'], '' if d['memory_equal'] else ' (none with the addresses that the driver gave)')))(j['difference'])"
  done <<EOF_SETTINGS
$TINY
$TINY --reshard-after-forward false
$TINY --forward-prefetch 2 --backward-prefetch 2
$TINY --accumulate 2
$TINY --alloc-conf expandable_segments:True
$TINY --checkpoint blocks
$MLP
EOF_SETTINGS
fi

if part numerics; then
  : >"$OUT/parity.cases"
  while read -r name model options; do
    torch="" own=""
    case $options in *bfloat16*) torch="--mp bf16" ;; esac
    case $name in *_lean) own="$OWN $FUSED $WRITTEN $LEAN" ;; *_lean_backward) own="$OWN $FUSED $WRITTEN ${LEAN% *} backward" ;; esac
    # shellcheck disable=SC2086
    run "numerics_$name" 90 $model $options $own --steps 18 --no-record --gradients "$OUT/gradients_$name" &&
      echo "--model $model ${options/--param-dtype bfloat16 --reduce-dtype float32/} $torch --steps 20 --results '$OUT/numerics_$name.out'" \
        "--gradients '$OUT/gradients_$name' --out '$OUT/parity_$name.out'" >>"$OUT/parity.cases"
  done <<EOF_MODELS
mlp_fp32 mlp --dim 1024 --layers 4 --batch 2
transformer_fp32 torch-transformer --dim 512 --layers 2 --dropout 0 --batch 2 --seq 128
llama_fp32 llama-tiny --batch 2 --seq 512
llama_bf16 llama-tiny --batch 2 --seq 512 --param-dtype bfloat16 --reduce-dtype float32
mlp_fp32_lean_backward mlp --dim 1024 --layers 4 --batch 2
llama_fp32_lean llama-tiny --batch 2 --seq 512
llama_bf16_lean llama-tiny --batch 2 --seq 512 --param-dtype bfloat16 --reduce-dtype float32
EOF_MODELS
  rm -f "$OUT"/parity_*.out
  [ -s "$OUT/parity.cases" ] && try 200 parity "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$GPUS" "$HERE/check_numerics.py" \
    --cases "$OUT/parity.cases"
  for found in "$OUT"/parity_*.out; do
    [ -f "$found" ] && digest "$(basename "$found" .out)" \
      "(not j['failed'], 'worst error: losses %.2g, gradients %.2g' % (j['worst_loss_error'], j['worst_gradient_error']))"
  done
  rm -rf "$OUT"/gradients_*
fi

# A graph's peaks and pool are the plan's to the byte, and its losses those of the steps without it: MOST is how far
# they may be apart, nothing in float32. Attention's backward in bfloat16 does not repeat its bits (executor.hpp), and
# what one bit does to the steps behind it is 1e-6 to 2e-5 of a loss.
if part graph; then
  GRAPH=3 FP32="llama-tiny --batch 2 --seq 512"
  # A recorded replay: its kernels have their times, in a store.
  # shellcheck disable=SC2086
  run graph_recorded 60 $TINY --cuda-graph $GRAPH --warmup 2 --steps 6 --force -o "$OUT/graph_recorded.db" &&
    digest graph_recorded "(j['compute_ms'] > 0 and not any('graph' in w for w in j['warnings']), 'recorded %.2f ms: %.2f compute, %.2f communication, %.2f of it exposed; timed %.2f ms; %s' % (j['recorded_step_ms'], j['compute_ms'], j['communication_ms'], j['exposed_communication_ms'], j['step_ms'], '; '.join(j['warnings'])))"
  while read -r name most options; do
    for graph in none $GRAPH; do
      rm -f "$OUT/graph_${name}_$graph.out"
      # shellcheck disable=SC2086
      run "graph_${name}_$graph" 60 $options --cuda-graph $graph --warmup 2 --steps 6 --no-record || continue 2
    done
    digest "graph_${name}_$GRAPH" "(lambda eager, d: (lambda loss: (loss <= $most and d['graph_pool_bytes'] == 0 and (d['memory_equal'] or d['memory_equal_at_addresses'] is True), '%.2f ms, without graph %.2f (host %.1f and %.1f); losses differ by %.1e%s; reserved %.2f GB, plan %+d B; pool %.2f GB, plan %+d B%s' % (j['step_ms'], eager['step_ms'], j['host_ms'], eager['host_ms'], loss, '' if loss else ' (bit for bit)', j['peak_reserved_bytes'] / 1e9, d['peak_reserved_bytes'], j['graph_pool_bytes'] / 1e9, d['graph_pool_bytes'], '' if d['memory_equal'] else '; peaks differ')))(max(abs(a / b - 1) for a, b in zip(j['losses'], eager['losses']))))(json.load(open('$OUT/graph_${name}_none.out')), j['difference'])"
  done <<EOF_SETTINGS
fp32 0 $FP32
fp32_kept 0 $FP32 --reshard-after-forward false
fp32_own 0 $FP32 $OWN
tiny 3e-5 $TINY
tiny_own 3e-5 $TINY $OWN $FUSED
1b_nccl 3e-5 $LLAMA_1B
1b_nccl_kept 3e-5 $LLAMA_1B --reshard-after-forward false
1b_own 3e-5 $LLAMA_1B $OWN
1b_own_kept 3e-5 $LLAMA_1B $OWN --reshard-after-forward false
8b_nccl 3e-5 $LLAMA_8B --seq 512 $FUSED
8b_nccl_kept 3e-5 $LLAMA_8B --seq 512 $FUSED --reshard-after-forward false
8b_own 3e-5 $LLAMA_8B --seq 512 $FUSED $OWN
tiny_copy_engine 3e-5 $TINY --all-gather copy-engine
tiny_symmetric 3e-5 $TINY --all-gather symmetric
8b_own_kept 3e-5 $LLAMA_8B --seq 512 $FUSED $OWN --reshard-after-forward false
EOF_SETTINGS
fi

# Each copy that is left out changes no number: in float32 losses are those of the same step with all copies, bit for
# bit. Then what each is worth.
if part copies; then
  KEPT="--reshard-after-forward false" PLACED="--all-gather-layout parameter-contiguous" READ="--reduce-scatter-input gradients"
  UNITS="--fully-shard-embedding-and-head" BACKWARD="--optimizer-overlap backward" FORWARD="--optimizer-overlap forward"
  while read -r family name options; do
    rm -f "$OUT/copies_${family}_$name.out"
    # shellcheck disable=SC2086
    run "copies_${family}_$name" 60 $options --warmup 2 --steps 6 --no-record || continue
    digest "copies_${family}_$name" "(lambda base, d: (lambda loss: (loss <= (0 if '$family'.startswith('fp32') else 3e-5) and (d['memory_equal'] or d['memory_equal_at_addresses'] is True), '%.2f ms, with copies %.2f; losses differ by %.1e%s; reserved %.2f GB, plan %+d B%s' % (j['step_ms'], base['step_ms'], loss, '' if loss else ' (bit for bit)', j['peak_reserved_bytes'] / 1e9, d['peak_reserved_bytes'], '' if d['memory_equal'] else '; peaks differ')))(max(abs(a / b - 1) for a, b in zip(j['losses'], base['losses']))))(json.load(open('$OUT/copies_${family}_base.out')), j['difference'])"
  done <<EOF_SETTINGS
fp32 base llama-tiny --batch 2 --seq 512 $FUSED $OWN
fp32 placed llama-tiny --batch 2 --seq 512 $FUSED $OWN $PLACED
fp32 read llama-tiny --batch 2 --seq 512 $FUSED $OWN $READ
fp32 written llama-tiny --batch 2 --seq 512 $FUSED $OWN $WRITTEN
fp32 backward llama-tiny --batch 2 --seq 512 $FUSED $OWN $BACKWARD
fp32 forward llama-tiny --batch 2 --seq 512 $FUSED $OWN $FORWARD
fp32 all llama-tiny --batch 2 --seq 512 $FUSED $OWN $FORWARD $PLACED $READ $WRITTEN $KEPT
fp32 all_backward llama-tiny --batch 2 --seq 512 $FUSED $OWN $BACKWARD $PLACED $READ $WRITTEN
fp32_padded base mlp --dim 1030 --layers 3 --batch 2 $FUSED $OWN
fp32_padded all mlp --dim 1030 --layers 3 --batch 2 $FUSED $OWN $PLACED $READ $WRITTEN $FORWARD
512 base $LLAMA_8B --seq 512 $FUSED $OWN $KEPT
512 placed $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $PLACED
512 read $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $READ
512 placed_read $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $PLACED $READ
512 backward $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $PLACED $READ $BACKWARD
512 forward $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $PLACED $READ $FORWARD
512 forward_units $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $PLACED $READ $FORWARD $UNITS
512 written_units $LLAMA_8B --seq 512 $FUSED $OWN $KEPT $PLACED $READ $FORWARD $UNITS $WRITTEN
4096 base $LLAMA_8B --seq 4096 $FUSED $OWN $KEPT
4096 placed_read $LLAMA_8B --seq 4096 $FUSED $OWN $KEPT $PLACED $READ
4096 forward_units $LLAMA_8B --seq 4096 $FUSED $OWN $KEPT $PLACED $READ $FORWARD $UNITS
4096 written_units $LLAMA_8B --seq 4096 $FUSED $OWN $KEPT $PLACED $READ $FORWARD $UNITS $WRITTEN
EOF_SETTINGS
fi

# fp8 GEMMs: losses of 20 steps against PyTorch's bfloat16 and its own float8, then times and losses against the same
# steps in bfloat16, and with all-gathers in float8 against the same steps without. MOST: float8's step over bfloat16's,
# the aim. APART: how far the losses of the third are from the second's, 0 where attention's backward repeats its bits.
if part float8; then
  FLOAT8="--float8 tensorwise" UNITS="--fully-shard-embedding-and-head"
  try 60 test_gpu_float8 "$BIN/test_gpu_kernels" "*float8*,*amax*"
  # shellcheck disable=SC2086
  run float8_numerics 90 $TINY --reduce-dtype float32 --kernels fused $FLOAT8 --steps 18 --no-record --gradients "$OUT/gradients_float8" &&
    try 100 float8_parity "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$GPUS" "$HERE/check_numerics.py" \
      --model llama-tiny --batch 2 --seq 1024 --mp bf16 $FLOAT8 --steps 20 --results "$OUT/float8_numerics.out" \
      --gradients "$OUT/gradients_float8" --out "$OUT/parity_float8.out" &&
    digest parity_float8 "(not j['failed'], 'from PyTorch bfloat16: losses %.2g, PyTorch float8 %.2g; from its float8: losses %.2g, gradients %.2g' % (max(s['loss_error_to_reference'] for s in j['steps']), max(s['torch_error_to_reference'] for s in j['steps']), j['worst_loss_error'], j['worst_gradient_error']))"
  rm -rf "$OUT/gradients_float8"
  while read -r name most apart options; do
    for float8 in none tensorwise gathered; do
      rm -f "$OUT/float8_${name}_$float8.out"
      choice="--float8 $float8"
      [ "$float8" = gathered ] && choice="$FLOAT8 --float8-all-gather"
      # shellcheck disable=SC2086
      run "float8_${name}_$float8" 60 $options $FUSED $choice --warmup 2 --steps 10 --no-record || continue 2
    done
    digest "float8_${name}_tensorwise" "(lambda base, d: (lambda loss, ratio: (loss <= 0.01 and ratio <= $most and (d['memory_equal'] or d['memory_equal_at_addresses'] is True), '%.2f ms, bfloat16 %.2f: %.3f, aim $most; losses differ by %.1e; reserved %.2f GB (bfloat16 %.2f), plan %+d B%s' % (j['step_ms'], base['step_ms'], ratio, loss, j['peak_reserved_bytes'] / 1e9, base['peak_reserved_bytes'] / 1e9, d['peak_reserved_bytes'], '' if d['memory_equal'] else '; peaks differ')))(max(abs(a / b - 1) for a, b in zip(j['losses'], base['losses'])), j['step_ms'] / base['step_ms']))(json.load(open('$OUT/float8_${name}_none.out')), j['difference'])"
    digest "float8_${name}_gathered" "(lambda base, d: (lambda loss: (loss <= $apart and (d['memory_equal'] or d['memory_equal_at_addresses'] is True), '%.2f ms, gathered in bfloat16 %.2f: %.3f; losses differ by %.1e, at most $apart%s; reserved %.2f GB (gathered in bfloat16 %.2f), plan %+d B%s' % (j['step_ms'], base['step_ms'], j['step_ms'] / base['step_ms'], loss, '' if loss else ' (bit for bit)', j['peak_reserved_bytes'] / 1e9, base['peak_reserved_bytes'] / 1e9, d['peak_reserved_bytes'], '' if d['memory_equal'] else '; peaks differ')))(max(abs(a / b - 1) for a, b in zip(j['losses'], base['losses']))))(json.load(open('$OUT/float8_${name}_tensorwise.out')), j['difference'])"
  done <<EOF_SETTINGS
8b_512 9 0 $LLAMA_8B --seq 512 $OWN --reshard-after-forward false $LEAN $UNITS
8b_512_nccl 9 0 $LLAMA_8B --seq 512
8b_4096 0.85 1e-3 $LLAMA_8B --seq 4096 $OWN --reshard-after-forward false $LEAN $UNITS
8b_4096_nccl 0.90 1e-3 $LLAMA_8B --seq 4096
1b_4x2048 9 1e-3 llama-1b --batch 4 --seq 2048 --param-dtype bfloat16 --reduce-dtype float32 --kernels fused $OWN $LEAN
EOF_SETTINGS
fi

MACHINE=h200
if part probe; then
  try 175 probe "$BIN/foreshard" probe --gpus "$GPUS" -o "$OUT/machine.json" --force --json &&
    digest probe "(True, 'GEMM %.0f TFLOP/s, copy %.0f GB/s, %d collectives' % (j['gemm_bf16_tflops'], j['hbm_copy_gb_per_s'], len(j['collectives'])))"
fi
[ -f "$OUT/machine.json" ] && MACHINE=$OUT/machine.json

if part plan; then
  i=0
  while read -r options; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    run "plan$i" 60 $options --steps 8 --machine "$MACHINE" --force -o "$OUT/plan$i.db" &&
      digest "plan$i" "(lambda step: (False, 'run %.2f ms with %d retries; the plan runs out of memory: $options' % (j['step_ms'], j['num_alloc_retries'])) if step is None else (abs(step) < 0.05, 'run %.2f ms, plan %+.1f %%: $options' % (j['step_ms'], 100 * step)))(j['difference']['step'])"
  done <<EOF_SETTINGS
$TINY
$TINY --reshard-after-forward false --optimizer adam-fused
$TINY --all-gather copy-engine
$TINY --all-gather low-contention --reduce-scatter low-contention --optimizer adam-fused
$TINY --forward-prefetch 2
$MLP --optimizer adam-fused
$MLP --all-gather low-contention
llama-1b --batch 1 --seq 2048 --param-dtype bfloat16 --optimizer adam-fused
llama-3b --layers 6 --batch 1 --seq 1536 --param-dtype bfloat16 --kernels fused
$LLAMA_8B --seq 512 --all-gather low-contention --reduce-scatter low-contention --optimizer adam-fused
$LLAMA_8B --seq 512
$LLAMA_8B --seq 4096 --all-gather copy-engine --optimizer adam-fused
EOF_SETTINGS
fi

# torch_run NAME ARGUMENTS…: the script that trains with FSDP2, into OUT/torch_NAME.out; false where there is none, or
# it failed.
torch_run() {
  [ -n "${FORESHARD_TORCH_SCRIPT:-}" ] || return 1
  local name=$1
  shift
  rm -f "$OUT/torch_$name.json"
  # A process that captured NCCL in a graph may hang as it exits, its results written.
  try 100 "torch_$name" bash -c 'timeout -k 5 85 "${@:2}"; [ -f "$1" ]' - "$OUT/torch_$name.json" \
    "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$GPUS" \
    "$FORESHARD_TORCH_SCRIPT" --out "$OUT" --name "torch_$name" --trace 0 "$@" || return 1
  rm -f "$OUT/torch_$name.pickle"
  cp "$OUT/torch_$name.json" "$OUT/torch_$name.out" && return
  row "torch_$name" FAIL 0 "the script wrote no torch_$name.json"
  return 1
}

# PyTorch's settings are the fastest of those tried on four H200 (2026-11-27): blocks compiled or not, with and without
# a CUDA graph of forward and backward, all-gathers in symmetric memory with zero CTAs or NCCL's, all with fused Adam and
# without reshard, which were fastest before.
BEST="--opt,adam-fused,--reshard,false,--symm,NCCL,--zero-cta,1"
if part step; then
  # MOST: run's step over PyTorch's, the aim.
  while read -r name most torch options; do
    rm -f "$OUT/step_$name.out"
    # shellcheck disable=SC2086
    run "step_$name" 90 $options --steps 10 --no-record &&
      digest "step_$name" "(True, 'run %.2f ms' % j['step_ms'])"
    [ "$torch" != - ] || continue
    # shellcheck disable=SC2086
    torch_run "step_$name" ${torch//,/ } &&
      digest "torch_step_$name" "(lambda ratio: (ratio <= $most, 'PyTorch %.2f ms; run is %.3f of it, aim $most' % (j['step_ms_median'], ratio)))(json.load(open('$OUT/step_$name.out'))['step_ms'] / j['step_ms_median'])"
  done <<EOF_MODELS
8b_512 0.55 --model,llama-8b,--batch,1,--seq,512,--mp,bf16,$BEST,--compile,1,--graph,1 $LLAMA_8B --seq 512 $FUSED $OWN --reshard-after-forward false $LEAN --fully-shard-embedding-and-head
8b_4096 0.83 --model,llama-8b,--batch,1,--seq,4096,--mp,bf16,$BEST,--compile,1 $LLAMA_8B --seq 4096 $FUSED $OWN --reshard-after-forward false $LEAN --fully-shard-embedding-and-head
mlp_fp32 0.85 --model,mlp,--batch,4,--seq,2048,$BEST mlp --batch 4 $FUSED $OWN --reshard-after-forward false $LEAN
8b_512_reshard - - $LLAMA_8B --seq 512 $FUSED $OWN
8b_512_nccl_gather - - $LLAMA_8B --seq 512 $FUSED --reduce-scatter low-contention
EOF_MODELS
fi

# pytorch#147168: record_stream with a host that runs ahead, and its remedies: references kept (stash), no async unshard,
# gather buffers of the compute stream. The host's pace is PyTorch's: with record_stream the amount depends on it; the
# others reserve the same bytes in every run, plan and PyTorch.
if part overallocation; then
  while read -r name options; do
    rm -f "$OUT/over_$name.out"
    # shellcheck disable=SC2086
    run "over_$name" 60 mlp --batch 4 --forward-prefetch 1 --backward-prefetch 1 --pace-host $options --steps 4 --no-record &&
      digest "over_$name" "('$name' == 'record_stream' or j['difference']['memory_equal'], 'reserved by step ' + ', '.join('%.2f' % (s['peak_reserved_bytes'] / 1e9) for s in j['steps'][:4]) + ' GB; plan %.2f GB' % (j['plan']['peak_reserved_bytes'] / 1e9))"
  done <<EOF_SETTINGS
record_stream --release record-stream --unshard-async
stash --release stash --unshard-async
no_async --release auto
compute_memory --gather-alloc compute
EOF_SETTINGS
  while read -r name options; do
    # shellcheck disable=SC2086
    torch_run "over_$name" --model mlp --fwd 1 --bwd 1 $options &&
      digest "torch_over_$name" "(lambda torch, run: ('$name' == 'record_stream' or (len(torch) > 1 and torch == run[:len(torch)]), 'PyTorch: reserved by step ' + ', '.join('%.2f' % (b / 1e9) for b in torch) + ' GB; run ' + ', '.join('%+d' % (b - a) for a, b in zip(torch, run)) + ' B'))([s['reserved_bytes.all.peak'] for s in j['memory_steps']], [s['peak_reserved_bytes'] for s in json.load(open('$OUT/over_$name.out'))['steps']])"
  done <<EOF_SETTINGS
record_stream --async-op 1 --record-stream 1
stash --async-op 1
no_async --async-op 0
EOF_SETTINGS
fi

echo
echo "part                       result     s  detail"
awk -F '\t' '{ printf "%-26s %-8s %4s  %s\n", $1, $2, $3, $4 }' "$OUT/table"
echo "$((SECONDS - START)) s; logs in $OUT"
! grep -q FAIL "$OUT/table"
