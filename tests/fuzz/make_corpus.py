#!/usr/bin/env python3
"""Writes the seeds under tests/fuzz/corpus: small valid inputs, from which libFuzzer goes on.

Those of `workload` are two random workloads of tests/traces/workload_file/workload_sample.hpp (seeds 1 and 2, 5 ops),
the one with kernels of kernels_file_test.cpp beside it, the same with steps that repeat (`cycle`), and that of a plan
of `mlp --dim 16 --layers 1` by a profile of foreshard's own run.
"""
import gzip
import json
import lzma
import pathlib
import pickle

HERE = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    folder = HERE / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


FRAMES = [{"name": "f", "filename": "a.py", "line": 2**64 - 1}]


def entry(action, addr, size, time, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "compile_context": "N/A",
            "user_metadata": "", "frames": FRAMES, **more}


def segment(address, blocks, **more):
    total = sum(b["size"] for b in blocks)
    return {"device": 0, "address": address, "total_size": total, "allocated_size": 512, "active_size": 512,
            "requested_size": 500, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": [], "blocks": blocks, **more}


def block(address, size, state, **more):
    return {"address": address, "size": size, "requested_size": size - 12, "state": state, "frames": [], **more}


BASE = 0x7F0000000000
SNAPSHOT = {
    "segments": [segment(BASE, [block(BASE, 512, "active_allocated"), block(BASE + 512, 2**21 - 512, "inactive")])],
    "device_traces": [
        [entry("segment_alloc", BASE, 2**21, 10), entry("alloc", BASE, 500, 11), entry("free_requested", BASE, 500, 12),
         entry("free_completed", BASE, 500, 13), entry("alloc", BASE, 500, 14), entry("snapshot", 0, 512, 15),
         {"action": "oom", "device_free": 2**30, "size": 2**40, "stream": 2**63 + 1, "time_us": 16}],
        [],
    ],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:200", "max_split_size": -1,
                           "garbage_collection_threshold": 0.5, "expandable_segments": True},
    "external_annotations": [{"stage": "START", "name": "FSDP::pre_forward", "device": 0, "time_us": 11},
                             {"stage": "END", "name": "FSDP::pre_forward", "device": 0, "time_us": 12}],
}
MODEL = {"filename": "/me/model.py", "line": 12, "name": "forward"}
MAIN = {"filename": "/me/train.py", "line": 80, "name": "main"}
MM = {"filename": "??", "line": 0, "name": "at::_ops::mm::call(at::Tensor const&)"}
IN_FORWARD = [MM, {"filename": "/venv/site-packages/torch/nn/modules/linear.py", "line": 2**64 - 1, "name": "forward"}, MODEL,
              MAIN]
STACKS = {"segments": [segment(BASE, [block(BASE, 512, "active_allocated", frames=IN_FORWARD),
                                      block(BASE + 512, 2**21 - 512, "inactive")])],
          "device_traces": [[entry("segment_alloc", BASE, 2**21, 10), entry("alloc", BASE, 500, 11) | {"frames": IN_FORWARD},
                             entry("alloc", BASE + 512, 8, 12) | {"frames": [MODEL, {"line": 1}, MAIN]},
                             entry("free_requested", BASE + 512, 8, 13) | {"frames": [MAIN]}]]}
OLD = {"segments": [{"device": 1, "address": BASE, "total_size": 1024, "stream": 0, "segment_type": "large",
                     "blocks": [{"size": 1024, "state": "active_awaiting_free",
                                 "history": [{"addr": BASE, "real_size": 1000, "frames": []}]}]}],
       "device_traces": [[], []]}


class Object:
    pass


def event(name, cat, ts, dur, tid, args, pid=1):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


COMMS = {"Collective name": "_allgather_base", "In msg nelems": 4, "Out msg nelems": 16, "Group size": 4,
         "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg",
         "Process Group Ranks": "[0, 1, 2, 3]"}
TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4, "nccl_version": "2.28.9"},
    "baseTimeNanoseconds": 1790857026000000000,
    "traceEvents": [
        event("FSDP::pre_forward", "user_annotation", 1.5, 20.25, 1, {"External id": 3}),
        event("record_param_comms", "cpu_op", 2, 5, 1, {"External id": 4, **COMMS}),
        event("cudaLaunchKernel", "cuda_runtime", 2.001, 1.5, 1, {"cbid": 211, "correlation": 7}),
        event("cuLaunchKernelEx", "cuda_driver", 4, 1.5, 2, {"correlation": 8}),
        event("INVALID", "cuda_runtime", 4.5, 1.5, 2, {"correlation": 9}),
        event("gemm", "kernel", 5, 3, 7, {"correlation": 7, "stream": 7, "grid": [1, 2, 3], "block": [32, 1, 1]}, 0),
        event("ncclDevKernel_AllGather_RING_LL(x)", "kernel", 8, 3, 24, {"correlation": 8, "stream": 24, **COMMS}, 0),
        event("Memcpy PtoP (Device -> Device)", "gpu_memcpy", 9, 3, 24,
              {"External id": 4, "correlation": 9, "stream": 24, "bytes": 96}, 0),
        event("Memset (Device)", "gpu_memset", 9, 3, 7, {"correlation": 10, "stream": 7, "bytes": 4}, 0),
        event("cudaEventRecord", "cuda_runtime", 9.5, 1, 1, {"correlation": 11}),
        event("Stream Wait Event", "cuda_sync", 10, 1, 24,
              {"cuda_sync_kind": "Stream Wait Event", "stream": 24, "correlation": 12, "wait_on_stream": 7,
               "wait_on_cuda_event_record_corr_id": 11, "wait_on_cuda_event_id": 1}, 0),
        {"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 2, "cat": "ac2g", "name": "ac2g"},
        {"name": "process_name", "ph": "M", "ts": 1, "pid": 1, "tid": 0, "args": {"name": "py\\\"thon"}},
        {"ph": "X", "cat": "Trace", "ts": 1, "dur": 30, "pid": "Spans", "tid": "PyTorch Profiler", "name": "x"},
    ],
    "traceName": "t.json",
}
SEND = {**COMMS, "Collective name": "send"}
SPLIT = {**COMMS, "Collective name": "all_to_allv", "In split size": "[0, 4, 0, 0]", "Out split size": "[1, 1, 1, 1]"}
EXCHANGES = TRACE | {"traceEvents": [
    event("record_param_comms", "cpu_op", 2, 1, 1, {"External id": 4, **SEND}),
    event("record_param_comms", "cpu_op", 3, 1, 1, {"External id": 5, **SEND, "Collective name": "recv"}),
    event("cuLaunchKernelEx", "cuda_driver", 4, 1, 1, {"correlation": 8}),
    event("ncclDevKernel_SendRecv(x)", "kernel", 8, 3, 21, {"correlation": 8, "stream": 21, "grid": [16, 1, 1]}, 0),
    event("cuLaunchKernelEx", "cuda_driver", 6, 1, 1, {"correlation": 9}),
    event("ncclDevKernel_SendRecv(x)", "kernel", 12, 3, 7, {"correlation": 9, "stream": 7, **SPLIT}, 0),
    event("ncclDevKernel_Broadcast_RING_LL(x)", "kernel", 15, 3, 7, {"stream": 7, **COMMS, "Collective name": "broadcast"}, 0),
]}
ABOUT = {
    "schema": 1, "torch": "2.11.0+cu130", "nccl": "2.28.9", "gpu": "NVIDIA H200", "sm_count": 132, "gpus": 4,
    "nodes": 1, "replicate": 2, "batch": 2, "seq": None,
    "settings": {"param_dtype": "bfloat16", "reduce_dtype": None, "forward_prefetch": 2,
                 "backward_prefetch": "default", "release": "record-stream", "reshard_after_forward": 2,
                 "reshard_of_unit": {"layers.0": False},
                 "prefetch_lists": {"forward": {"": ["layers.0"]}, "backward": {}},
                 "alloc_conf": "expandable_segments:True"},
    "root_reshard_explicit": True,
    "measured": {"step_ms": [1.5, 2], "host_issue_ms": [1.25], "profiler": False},
    "model_config": {"model_type": "x"},
    "units": [{"unit": "", "parameters": []},
              {"unit": "layers.0", "parameters": [{"name": "w", "shape": [8, 4], "dtype": "float32"}]}],
}

for protocol in (2, 3, 4, 5):
    put("pickle", f"snapshot{protocol}", pickle.dumps(SNAPSHOT, protocol))
    put("snapshot", f"snapshot{protocol}", pickle.dumps(SNAPSHOT, protocol))
loop = []
loop.append(loop)
put("pickle", "loop", pickle.dumps(loop, 4))
put("pickle", "object", pickle.dumps(Object(), 4))
put("pickle", "values", pickle.dumps([None, True, 1.5, -1, 2**70, -2**63, b"x", "é", (1,), (1, 2), (1, 2, 3, 4)], 4))
put("snapshot", "old", pickle.dumps(OLD, 4))
put("snapshot", "json", json.dumps(SNAPSHOT))
put("snapshot", "stacks", pickle.dumps(STACKS, 4))
put("snapshot", "stacks_json", json.dumps(STACKS))
put("snapshot", "gzip", gzip.compress(pickle.dumps(SNAPSHOT, 4), mtime=0))
put("snapshot", "xz", lzma.compress(pickle.dumps(SNAPSHOT, 4)))
put("trace", "exchanges", json.dumps(EXCHANGES))
put("trace", "trace", json.dumps(TRACE, indent=1))
put("trace", "array", json.dumps(TRACE["traceEvents"]))
put("trace", "gzip", gzip.compress(json.dumps(TRACE).encode(), mtime=0))
put("about", "about", json.dumps(ABOUT))
put("strict_json", "about", json.dumps(ABOUT))
put("strict_json", "twice", '{"a": [1, -2.5e3, null, true], "b\\\\u00e9": {"a": "x", "a": "y"}}')
put("strict_json", "deep", "[" * 66 + "]" * 66)
for name, text in {"empty": "", "expandable": "expandable_segments:True", "split": "max_split_size_mb:200,garbage_collection_threshold:0.6",
                   "roundup": "roundup_power2_divisions:[256:1,512:2,>:8],backend:native"}.items():
    put("alloc_conf", name, text)
for name, text in {"list": "512 # first\n1024\n\n7\n", "histogram": "512:10,1024:5,2048:1", "uniform": "uniform:256..2048",
                   "lognormal": "lognormal:700,0.55,256..2048"}.items():
    put("lengths", name, text)

for name, paths in {
    "recorder": ["about.json", "rank00000/snapshot.pickle.gz", "rank00000/trace.json.gz", "rank00001/trace.json.gz"],
    "torchtitan": ["config.json", "profiling/memory_snapshot/step_000000000010/000000_step_10.pickle",
                   "profiling/traces/iteration_10/rank0_trace.json.gz"],
    "others": ["profile_1.json", "profiler_trace.json", "a_step5_rank3-of-8_1.json.gz", "u_rank7_pid1.pickle"],
}.items():
    put("recording_folder", name, "\n".join(paths))

put("recorder_problems", "two_roots", json.dumps({"schema": 1, "problems": ["2 root FSDP2 modules", "no trace"]}))
put("titan_config", "llama3", json.dumps({
    "profiler": {"enable_profiling": True, "profile_freq": 10, "profiler_active": 2}, "metrics": {"log_freq": 1},
    "optimizer": {"name": "AdamW", "implementation": "fused"},
    "training": {"local_batch_size": 2, "seq_len": 8192, "steps": 1000, "mixed_precision_param": "bfloat16",
                 "mixed_precision_reduce": "float32"},
    "parallelism": {"data_parallel_replicate_degree": 2, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 1,
                    "fsdp_reshard_after_forward": "default"},
    "activation_checkpoint": {"mode": "selective", "selective_ac_option": "op"}}))
put("titan_config", "tokens", json.dumps({"training": {"num_tokens_per_microbatch_per_dp_rank": 4096},
                                          "parallelism": {"fsdp_reshard_after_forward": "never"}}))
put("step_log", "titan", "[rank0]:\x1b[31mstep:  1  \x1b[32mloss: 12.2578  \x1b[34mtps: 820\x1b[0m\n"
    "step: 10  loss:  7.8  memory: 40.1GiB(42.2%)  tps: 5,762  tflops: 80.1  mfu: 8.1%\nvalidate step: 10 tps: 7\n"
    "step: 20 tps: 5,801\n")
put("step_log", "end_to_end", '{"step": 1, "time_metrics/end_to_end(s)": 9.5}\nstep: 2 end_to_end(s): 0.25\n')

LLAMA = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": False, "attention_bias": True,
         "mlp_bias": False, "torch_dtype": "bfloat16", "hidden_act": "silu", "max_position_embeddings": 8192}
CONFIGS = {
    "llama": LLAMA,
    "qwen2": {**LLAMA, "model_type": "qwen2", "use_sliding_window": False, "head_dim": None},
    "qwen3": {**LLAMA, "model_type": "qwen3", "dtype": "float32"},
    "mixtral": {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 4096},
    "deepseek_v3": {**LLAMA, "model_type": "deepseek_v3", "num_key_value_heads": 32, "q_lora_rank": None, "kv_lora_rank": 512,
                    "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
                    "first_k_dense_replace": 1, "moe_intermediate_size": 1408},
    "qwen3_moe": {**LLAMA, "model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                  "decoder_sparse_step": 2, "mlp_only_layers": [3], "norm_topk_prob": True},
    "gpt2": {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "vocab_size": 50257,
             "n_inner": None, "resid_pdrop": 0.0, "activation_function": "gelu_new"},
    "unknown": {"model_type": "t5", "d_model": 512},
}
for name, config in CONFIGS.items():
    put("hf_config", name, json.dumps(config))


def header(tensors, **more):
    """4 bytes of data size, then the header of tensors (name, dtype, shape, bytes)."""
    entries, at = dict(more), 0
    for name, dtype, shape, size in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return at.to_bytes(4, "little") + json.dumps(entries).encode()


put("safetensors", "llama", header([("model.embed_tokens.weight", "BF16", [16, 4], 128), ("model.layers.0.mlp.w", "BF16", [4, 4], 32),
                                    ("model.layers.1.mlp.w", "F32", [4, 4], 64)], __metadata__={"format": "pt"}))
put("safetensors", "gpt2", header([("h.0.attn.bias", "F32", [1, 1, 4, 4], 64), ("h.0.attn.c_attn.weight", "F32", [4, 12], 192),
                                   ("empty", "F16", [0, 4], 0)]))
put("safetensors", "quantised", header([("layers.0.q.qweight", "I32", [4, 4], 64), ("layers.0.q.scales", "F16", [4], 8)]))
put("safetensors", "float8", header([("layers.0.q.weight", "F8_E4M3", [4, 4], 16), ("layers.0.scale", "F32", [], 4)]))


def machine(**more):
    return json.dumps({"schema": 2, "name": "mine", "extends": "h200", **more})


def constant(value, unit):
    return {"value": value, "unit": unit, "source": "measured"}


TABLE = {"kind": "all-gather", "transport": "nccl", "ranks": 16, "ranks_per_node": 8, "source": "measured",
         "bytes_us": [[1024, 10.5], [1048576, 40]]}
put("profile", "network", machine(network={"nics": constant(4, "count"), "nic": constant(25, "GB/s")}))
put("profile", "schema_3", json.dumps({"schema": 3, "name": "mine", "extends": "h200", "covers": {"ranks": [2, 4], "source": "x"}}))
put("profile", "tables", machine(extends="h100", collectives=[TABLE], valid_range={"ranks": [2, 16], "source": "x"}))
put("profile", "gpu", machine(extends="a100-40", gpu={"memory_bandwidth": constant(1.5, "TB/s")}, contention=None))
put("profile", "kernels", machine(host={"program": {"value": "foreshard", "source": "x"}}, compute={
    "kernels": [{"label": "aten::mul", "access": "row", "dtype": "bfloat16", "points": [[1024, 2], [4096, 3.5]], "source": "x"}],
    "shapes": [{"kind": "gemm", "dtype": "float32", "causal": False, "points": [[64, 64, 64, 1, 1.5]], "source": "x"}]}))
put("profile", "whole", "".join((HERE.parent.parent.parent / "sim/machine/profiles/h200.json").read_text().split("\n")))

PERF = """# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_gather_perf
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 16777216 step: 2(factor) warmup iters: 1 iters: 20
# Using devices
#  Rank  0 Group  0 Pid  1 on a device  0 [0000:18:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on b device  0 [0000:2a:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576         65536     float    none      -1    43.27   24.23   12.12      0    42.27   24.81   12.40      0
    16777216       1048576     float    none      -1    62.00  270.60  135.30    N/A    61.57  272.49  136.24    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 110.000
"""
put("nccl_tests", "text", PERF)
put("nccl_tests", "launcher", "".join(f"[1,0]<stdout>:{line}\n" for line in PERF.splitlines()))
HALF = {"time": 20.0, "alg_bw": 52.4288, "bus_bw": 26.2144, "nwrong": 0.0}
put("nccl_tests", "json", json.dumps({
    "version": 1, "args": ["./reduce_scatter_perf", "-R", "2"],
    "config": {"devices": [{"rank": r, "group": 0, "hostname": "a", "device_info": "NVIDIA H200"} for r in (0, 1)]},
    "results": [{"size": 1048576, "redop": "sum", "out_of_place": HALF, "in_place": None}], "end_time": "x"}))
put("nccl_tests", "probe", json.dumps([
    {"variant": "nccl", "world": 4, "op": "all_gather", "total_bytes": 1048576, "us": 42.3},
    {"variant": "nccl", "world": 4, "op": "contention", "compute": "copy512MB", "comm": "all_gather", "compute_isolated_us": 253.8,
     "compute_under_comm_us": 305.3, "comm_isolated_us": 1249.1, "comm_under_compute_us": 2124.0},
    {"what": "gemm", "m": 4096, "tflops": 796.5}]))
put("nccl_tests", "lines", "\n".join(json.dumps(row) for row in (
    {"variant": "ag:nccl", "world": 8, "op": "all_gather", "total_bytes": "128M", "us": 390.0},
    {"variant": "rs:symmetric", "world": 8, "op": "reduce_scatter", "total_bytes": 1048576, "us": 15.5},
    {"op": "path", "text": "all_gather: nccl"})))
put("nccl_tests", "bench", "NCCL version\nBENCH " + json.dumps(
    {"variant": "nccl", "world": 4, "op": "all_gather", "total_bytes": "64k", "us": 30.0}) + "\n")

put("topology", "node", """<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu>
    </pci>
    <pci busid="0000:19:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0xa" maxconn="131072" gdr="1"/></nic>
    </pci>
  </cpu>
</system>
""")

for name, kind in (("points", "sweep points"), ("searched", "a search's points")):
    put("part", name, json.dumps({
        "part_of": kind, "schema": 1, "part": 1, "parts": 2, "fingerprint": "xxh3:0123456789abcdef", "pieces": 4,
        "found": [{
            "piece": piece, "state": state, "reason": "", "has_time": True, "step_ms": 12.5, "host_ms": 3.25,
            "exposed_communication_ms": 1.0, "exposed_all_to_all_ms": 0.0, "floor_compute_ms": 9.5,
            "floor_links_ms": 3.5, "floor_host_ms": 3.25, "host_bound": False, "host_binds": False,
            "uncertainty": 0.1, "difference": 0.02, "tokens_per_s_per_gpu": 100.0, "peak_requested_bytes": 1000,
            "peak_allocated_bytes": 1024, "peak_active_bytes": 1024, "peak_reserved_bytes": 2097152,
            "least_reserved_bytes": 2097152, "most_reserved_bytes": 2097152, "may_run_out_of_memory": False,
            "num_alloc_retries": 0, "step_num_alloc_retries": 0, "valid": False, "not_valid": ["modelled"],
            "not_measured": 1, "warnings": [], "not_as_asked": []}
            for piece, state in ((1, "ran"), (3, "refused"))]}))
put("part", "trials", json.dumps({
    "part_of": "trials", "schema": 1, "part": 0, "parts": 2, "fingerprint": "xxh3:0123456789abcdef", "pieces": 3,
    "found": [{"piece": piece, "step_ns": 5_000_000, "waiting_ns": 100, "last": 2**32 - 1,
               "awaited_ns": 0, "awaited_gpu_ns": 0, "awaited_host_ns": 0, "awaited_nvlink_ns": 0,
               "awaited_network_ns": 0}
              for piece in (0, 2)]}))
uses = {"reserved": [2097152, 4194304], "peak_reserved": [2097152, 4194304], "peak_allocated": [1024, 4096],
        "retries": [0, 1], "released": [0, 2]}
put("part", "seeds", json.dumps({
    "part_of": "seeds", "schema": 1, "part": 1, "parts": 2, "fingerprint": "xxh3:0123456789abcdef", "pieces": 3,
    "found": [{
        "piece": 1, "steps": [uses],
        "growth": [{"step": 0, "length": 512, "segments": 1, "bytes": 2097152, "reserved": 2097152,
                    "request": "layers.0: aten::mm", "largest_request": 1000, "largest_segment": 2097152}],
        "retries": [{"step": 1, "length": 1024, "retries": 1, "released": 2, "made": 1, "request": "head: aten::mm",
                     "bytes": 4096, "served": True}],
        "out_of_memory": [{"step": 2, "length": 2048, "before_first": False, "request": "head: aten::mm",
                           "requested": 8192, "tried": 2097152, "allowed": 4194304, "device_free": 0,
                           "allocated": 4096, "reserved": 4194304, "private_free": 0,
                           "use": [{key: values[:1] for key, values in uses.items()}]}],
        "driver_allocations": 3, "driver_frees": 2, "steps_giving_back": 1, "behind_recorded_first": False,
        "follows_recording": True}]}))
