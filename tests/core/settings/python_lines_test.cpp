#include "core/settings/python_lines.hpp"

#include <fstream>
#include <sstream>

#include "core/settings/python_classes.hpp"
#include "core/settings/settings_table.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {
std::string code(const std::vector<std::pair<std::string, std::string>>& given) {
  Settings settings;
  settings.gpus = 4;
  for (const auto& [key, value] : given) REQUIRE(set_setting(settings, key, value));
  return python_lines(settings).text();
}
bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}
}  // namespace

TEST_CASE("default settings are plain fully_shard calls") {
  CHECK(code({}) ==
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.fsdp import fully_shard\n"
        "mesh = init_device_mesh(\"cuda\", (4,))\n"
        "blocks = list(model.layers)\n"
        "for block in blocks:\n"
        "    fully_shard(block, mesh=mesh, reshard_after_forward=True)\n"
        "fully_shard(model, mesh=mesh, reshard_after_forward=True)\n");
}

TEST_CASE("an encoder and a decoder have a list of blocks each") {
  ModuleNames modules;
  modules.blocks = {"model.encoder.block", "model.decoder.block"};
  Settings settings;
  settings.checkpoint = Checkpoint::blocks;
  const std::string text = python_lines(settings, modules).text();
  CHECK(has(text,
            "for layers in (model.encoder.block, model.decoder.block):\n"
            "    for i, block in enumerate(layers):\n"
            "        layers[i] = checkpoint_wrapper(block)\n"
            "blocks = [*model.encoder.block, *model.decoder.block]"));
}

TEST_CASE("torch is imported where a line uses it, behind os") {
  CHECK(has(code({{"param_dtype", "bfloat16"}}),
            "import torch\nfrom torch.distributed.device_mesh import init_device_mesh"));
  CHECK(has(code({{"optimizer", "sgd"}}), "import torch"));
  CHECK(has(code({{"all_gather", "symmetric"}, {"pytorch", "2.11"}}), "import torch"));  // in the printed class
  CHECK(has(code({{"all_gather", "copy-engine"}}), "import os\nimport torch"));
  CHECK_FALSE(has(code({{"checkpoint", "blocks"}, {"reduce_scatter", "low-contention"}}), "import torch"));
}

TEST_CASE("each setting has its call") {
  CHECK(has(code({{"forward_prefetch", "2"}}), "    block.set_modules_to_forward_prefetch(blocks[i + 1:i + 3])"));
  CHECK(has(code({{"backward_prefetch", "1"}}),
            "    block.set_modules_to_backward_prefetch(blocks[max(0, i - 1):i][::-1])"));
  CHECK(has(code({{"param_dtype", "bfloat16"}, {"reduce_dtype", "float32"}}),
            "policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"));
  CHECK(has(code({{"reshard_after_forward", "2"}}), "    fully_shard(block, mesh=mesh, reshard_after_forward=2)"));
  CHECK(has(code({{"replicate", "2"}}),
            "mesh = init_device_mesh(\"cuda\", (2, 2), mesh_dim_names=(\"replicate\", \"shard\"))"));
  CHECK(has(code({{"tensor_parallel", "2"}}),
            "mesh = init_device_mesh(\"cuda\", (2, 2), mesh_dim_names=(\"shard\", \"tp\"))[\"shard\"]"));
  CHECK(has(code({{"expert_parallel", "2"}}),
            "experts_mesh = init_device_mesh(\"cuda\", (2, 2), mesh_dim_names=(\"efsdp\", \"ep\"))"));
  CHECK(
      has(code({{"expert_parallel", "2"}, {"forward_prefetch", "1"}}),
          "    block.set_modules_to_forward_prefetch([m for b in blocks[i + 1:i + 2] for m in (b, *experts_of(b))])"));
  CHECK(has(code({{"expert_parallel", "2"}}),
            "    for experts in experts_of(block):\n"
            "        fully_shard(experts, mesh=experts_mesh[\"efsdp\"], reshard_after_forward=True)\n"
            "        experts.set_gradient_divide_factor(4.0)\n"
            "    fully_shard(block, mesh=mesh, reshard_after_forward=True)"));
  const std::string grouped = code({{"expert_parallel", "2"}, {"forward_prefetch", "1"}, {"pytorch", "2.13"}});
  CHECK(has(grouped, "rest = FSDPMeshInfo(experts_mesh[\"efsdp\"], shard_mesh_dim=0)"));
  CHECK(has(grouped,
            "    fully_shard(block, mesh=mesh, reshard_after_forward=True, "
            "shard_placement_fn=placement(block))\n"
            "    block.set_gradient_divide_factor(4.0)"));
  CHECK(has(grouped, "    block.set_modules_to_forward_prefetch(blocks[i + 1:i + 2])"));
  CHECK(has(code({{"offload", "true"}}),
            "fully_shard(model, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=True), "
            "reshard_after_forward=True)"));
  CHECK(has(code({{"unshard_async", "true"}}), "model._set_unshard_async_op(True)"));
  CHECK(has(code({{"root_reshard_explicit", "false"}}), "fully_shard(model, mesh=mesh)"));
  CHECK(has(code({{"units_per_group", "2"}}), "    fully_shard(group, mesh=mesh, reshard_after_forward=True)"));
  CHECK(has(code({{"reshard_of_unit", "layers.0=false"}}), "reshard = {\"layers.0\": False}"));
  CHECK(has(code({{"accumulate", "4"}}), "    model.set_requires_gradient_sync(microbatch == 3)"));
  CHECK(has(code({{"optimizer", "adam-fused"}}),
            "optimizer = torch.optim.AdamW(model.parameters(), fused=True)  # or Adam; its other arguments stay"));
  CHECK(has(code({{"checkpoint", "blocks"}}), "    model.layers[i] = checkpoint_wrapper(block)"));
  CHECK(has(code({{"checkpoint", "selective-op"}}),
            "    model.layers[i] = checkpoint_wrapper(block, context_fn=contexts)"));
  CHECK(has(code({{"checkpoint", "selective-layer"}}), "    if ((i + 1) * 50 + 50) // 100 > (i * 50 + 50) // 100:"));
  CHECK(has(code({{"all_gather", "nccl-registered"}}),
            "        module.set_allocate_memory_from_process_group_for_comm(True)"));
  CHECK(has(code({{"alloc_conf", "expandable_segments:True"}}),
            "# environment: PYTORCH_ALLOC_CONF=expandable_segments:True"));
  CHECK(has(code({{"alloc_conf", "roundup_power2_divisions:[256:1,>:4]"}}),
            "# environment: PYTORCH_ALLOC_CONF='roundup_power2_divisions:[256:1,>:4]'"));
  CHECK(has(code({{"prefetch_lists", R"({"forward": {"": ["layers.0"]}})"}}),
            "model.set_modules_to_forward_prefetch([model.get_submodule(\"layers.0\")])"));
  CHECK(code({{"all_gather", "copy-engine"}}).find("NCCL_CTA_POLICY_ZERO") != std::string::npos);
  CHECK(has(code({{"all_gather", "copy-engine"}}), "device = torch.device(\"cuda\", int(os.environ[\"LOCAL_RANK\"]))"));
  CHECK(code({{"separate_reduce_scatter_group", "true"}}).find("\nmodel.set_sep") == std::string::npos);  // 2.11
  CHECK(code({{"pytorch", "2.13"}, {"separate_reduce_scatter_group", "true"}})
            .find("\nmodel.set_separate_reduce_scatter_group(True)") != std::string::npos);
  CHECK(has(code({{"reduce_scatter_max_input_buffers", "2"}}),
            "model.set_reduce_scatter_max_input_buffers(2)  # PyTorch 2.13"));
  CHECK(code({{"post_optimizer_event", "true"}}).find("set_post_optim_event") != std::string::npos);
}

TEST_CASE("symmetric memory is the version's call where that moves what is asked for, and a class where not") {
  const std::string call = "        module.set_symm_mem_for_comm()";
  const std::string custom = "        module.set_custom_all_gather(gather)";
  const std::vector<std::pair<std::string, std::string>> both{{"all_gather", "symmetric"},
                                                              {"reduce_scatter", "symmetric"}};
  CHECK_FALSE(has(code(both), call));  // 2.11 has no such call
  CHECK(has(code(both), custom));
  auto later = both;
  later.insert(later.begin(), {"pytorch", "2.12"});
  CHECK(has(code(later), call));
  CHECK_FALSE(has(code(later), custom));
  later.pop_back();  // all-gathers alone
  CHECK_FALSE(has(code(later), call));
  CHECK(has(code(later), custom));
  later.emplace_back("replicate", "2");
  CHECK(has(code(later), "gather = SymmetricAllGather(mesh.get_group(\"shard\"))"));
}

TEST_CASE("a class that the version needs is printed before it is used, and as docs/sweep.md has it") {
  std::stringstream page;
  page << std::ifstream("docs/sweep.md").rdbuf();
  const auto printed = [&](const std::string& text, std::string_view source, const char* use) {
    INFO(use);
    CHECK(text.find(source) < text.find(use));
    CHECK(text.find(use) < text.find("for module in model.modules():"));
    CHECK(page.str().find("```python\n" + std::string(source)) != std::string::npos);
  };
  const std::string both = code({{"all_gather", "symmetric"}, {"reduce_scatter", "symmetric"}});
  printed(both, kSymmetricAllGather, "\ngather = SymmetricAllGather(mesh.get_group())\n");
  printed(both, kSymmetricReduceScatter, "\nscatter = SymmetricReduceScatter(mesh.get_group())\n");
  CHECK(has(both, "        module.set_custom_reduce_scatter(scatter)"));
  const std::string separate = code({{"separate_reduce_scatter_group", "true"}});
  printed(separate, kSeparateReduceScatter, "\nscatter = SeparateReduceScatter(mesh.get_group())\n");
  CHECK(has(separate, "        module.set_custom_reduce_scatter(scatter)"));
}

TEST_CASE("a reduce-scatter of NCCL's symmetric kernels is set on every unit, and adds alone") {
  const std::string sum = "        module.set_force_sum_reduction_for_comms(True)";
  for (const char* transport : {"symmetric", "copy-engine"}) {
    INFO(transport);
    const std::string text = code({{"reduce_scatter", transport}});
    CHECK(has(text, "from torch.distributed.fsdp import FSDPModule, fully_shard"));
    CHECK(has(text, sum));
    CHECK(has(text, "        module.set_custom_reduce_scatter(scatter)"));
    CHECK(text.find(sum) > text.find("fully_shard(model"));
  }
  // torch.ops.symm_mem._low_contention_reduce_scatter takes "avg", too.
  CHECK_FALSE(has(code({{"reduce_scatter", "low-contention"}}), sum));
  CHECK_FALSE(has(code({{"reduce_scatter", "nccl-registered"}}), sum));
  CHECK_FALSE(has(code({{"all_gather", "symmetric"}}), sum));
}

TEST_CASE("embedding and head are wrapped before and behind the blocks, by the names they have") {
  const std::string text = code({{"fully_shard_embedding_and_head", "true"}, {"forward_prefetch", "1"}});
  const std::size_t embedding =
      text.find("\nfully_shard(model.tok_embeddings, mesh=mesh, reshard_after_forward=True)\n");
  const std::size_t head =
      text.find("\nfully_shard([model.norm, model.output], mesh=mesh, reshard_after_forward=False)\n");
  REQUIRE(embedding != std::string::npos);
  REQUIRE(head != std::string::npos);
  CHECK(embedding < text.find("for block in blocks:"));
  CHECK(text.find("for block in blocks:") < head);
  CHECK(head < text.find("\nfully_shard(model, "));
  CHECK(has(text, "blocks = [model.tok_embeddings, *blocks, model.norm]"));
  Settings settings;
  settings.fully_shard_embedding_and_head = true;
  settings.reshard_of_unit["norm, head"] = {Reshard::Kind::always, 0};
  const std::string named =
      python_lines(settings, {{"model.layers"}, "model.tok", {"model.norm", "model.head"}}).text();
  CHECK(has(named, "reshard = {\"norm, head\": True}"));
  CHECK(has(
      named,
      "fully_shard([model.norm, model.head], mesh=mesh, reshard_after_forward=reshard.get(\", \".join(names[module] "
      "for module in [model.norm, model.head]), False))"));
}

TEST_CASE("gradients that are kept are zeroed in every step, outside of a CUDA graph") {
  CHECK(!has(code({}), "optimizer.zero_grad(set_to_none=False)  # in every step"));
  CHECK(has(code({{"set_to_none", "false"}}), "optimizer.zero_grad(set_to_none=False)  # in every step"));
  const std::string graph = code({{"set_to_none", "false"}, {"cuda_graph", "3"}});
  CHECK(has(graph, "        optimizer.zero_grad(set_to_none=False)"));
  CHECK(graph.find("batch.copy_(next_batch), optimizer.zero_grad(set_to_none=False), graph.replay()") !=
        std::string::npos);
}

TEST_CASE("a CUDA graph's statements hold what stands in them") {
  const std::string text = code({{"cuda_graph", "4+3"}, {"alloc_conf", "expandable_segments:True"}});
  CHECK(has(text, "with torch.cuda.stream(stream):"));
  CHECK(has(text, "with torch.cuda.graph(graph, stream=stream, capture_error_mode=\"thread_local\"):"));
  CHECK(text.find("NCCL_GRAPH_REGISTER=0") != std::string::npos);
  std::size_t indent = 0;
  bool opens = false;
  for (std::size_t from = 0; from < text.size();) {
    const std::string line = text.substr(from, text.find('\n', from) - from);
    from += line.size() + 1;
    if (line.starts_with("#")) continue;
    const std::size_t here = line.find_first_not_of(' ');
    INFO(line);
    CHECK((opens ? here == indent + 4 : here <= indent));
    indent = here;
    opens = line.ends_with(":");
  }
}
