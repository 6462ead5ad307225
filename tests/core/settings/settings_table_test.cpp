#include "core/settings/settings_table.hpp"

#include <algorithm>

#include "core/settings/carried_out.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

std::string value_of(const Settings& settings, std::string_view key) {
  for (const auto& [k, v] : setting_options(settings))
    if (k == key) return v;
  return "(no such key)";
}

Settings everything() {
  Settings s;
  s.gpus = 8;
  s.nodes = 2;
  s.replicate = 2;
  s.expert_parallel = 2;
  s.router_imbalance = 1.5;
  s.batch = 4;
  s.seq = 2048;
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  s.forward_prefetch = 2;
  s.backward_prefetch = 0;
  s.prefetch_lists.forward["layers.0"] = {"layers.1", "layers.2"};
  s.prefetch_lists.backward["say \"hi\""] = {};
  s.unshard_async = true;
  s.release = Release::record_stream;
  s.reduce_scatter_release = Release::stash;
  s.gather_alloc = GatherAlloc::compute;
  s.reshard_after_forward = {Reshard::Kind::group, 4};
  s.reshard_of_unit["layers.0, layers.1"] = {Reshard::Kind::never, 0};
  s.root_reshard_explicit = false;
  s.all_gather = Transport::copy_engine;
  s.reduce_scatter = Transport::symmetric;
  s.separate_reduce_scatter_group = true;
  s.reduce_scatter_max_input_buffers = 3;
  s.units_per_group = 2;
  s.fully_shard_embedding_and_head = true;
  s.post_optimizer_event = true;
  s.accumulate = 3;
  s.accumulate_with_sync = true;
  s.checkpoint = Checkpoint::selective_layer;
  s.checkpoint_share = 25;
  s.kernels = Kernels::fused;
  s.float8 = Float8::tensorwise;
  s.set_to_none = false;
  s.float8_all_gather = true;
  s.offload = true;
  s.optimizer = Optimizer::adam_fused;
  s.optimizer_overlap = OptimizerOverlap::forward;
  s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  s.all_gather_input = AllGatherInput::optimizer;
  s.reduce_scatter_input = ReduceScatterInput::gradients;
  s.alloc_conf = "expandable_segments:True,max_split_size_mb:200";
  s.pytorch = "2.8~root-reshards";
  return s;
}

}  // namespace

TEST_CASE("settings read back give equal settings") {
  for (const Settings& settings : {Settings{}, everything()}) {
    Settings back = settings == Settings{} ? everything() : Settings{};
    for (const auto& [key, value] : setting_options(settings)) {
      INFO(key << " = " << value);
      const auto set = set_setting(back, key, value);
      REQUIRE(set);
    }
    CHECK(back == settings);
  }
}

TEST_CASE("every row has an option, and every word of a row is accepted") {
  for (const SettingOption& setting : setting_table()) {
    INFO(setting.key);
    CHECK(setting.option().starts_with("--"));
    CHECK(setting.option().find('_') == std::string::npos);
    CHECK_FALSE(setting.help.empty());
    for (const std::string_view word : setting.words) {
      Settings settings;
      const auto set = set_setting(settings, setting.key, word);
      INFO(word);
      CHECK(set);
    }
  }
}

TEST_CASE("about values: JSON texts and option words mean the same") {
  Settings s;
  REQUIRE(set_setting(s, "param_dtype", "\"bfloat16\""));
  CHECK(s.param_dtype == DType::bfloat16);
  REQUIRE(set_setting(s, "param-dtype", "null"));
  CHECK_FALSE(s.param_dtype.has_value());
  REQUIRE(set_setting(s, "reduce-dtype", "bf16"));
  CHECK(s.reduce_dtype == DType::bfloat16);
  REQUIRE(set_setting(s, "forward_prefetch", "2"));
  CHECK(s.forward_prefetch == 2u);
  REQUIRE(set_setting(s, "forward_prefetch", "\"implicit\""));
  CHECK_FALSE(s.forward_prefetch.has_value());
  REQUIRE(set_setting(s, "reshard_after_forward", "4"));
  CHECK(s.reshard_after_forward == Reshard{Reshard::Kind::group, 4});
  REQUIRE(set_setting(s, "release", "\"record-stream\""));
  CHECK(s.release == Release::record_stream);
  REQUIRE(set_setting(s, "pytorch", "2.13~ties-by-creation~ties-by-creation"));
  CHECK(s.pytorch == "2.13~ties-by-creation");
  REQUIRE(set_setting(s, "pytorch", "2.11.0+cu130"));
  CHECK(s.pytorch == "2.11");
}

TEST_CASE("release per collective") {
  Settings s;
  REQUIRE(set_setting(s, "release", "all-gather=record-stream,reduce-scatter=stash"));
  CHECK(s.release == Release::record_stream);
  CHECK(s.reduce_scatter_release == Release::stash);
  CHECK(value_of(s, "release") == "\"all-gather=record-stream,reduce-scatter=stash\"");
  REQUIRE(set_setting(s, "release", "stash"));
  CHECK_FALSE(s.reduce_scatter_release.has_value());
  CHECK_FALSE(set_setting(s, "release", "all-gahter=stash"));
  CHECK_FALSE(set_setting(s, "release", ""));
  CHECK(s.release == Release::stash);
}

TEST_CASE("unknown words and keys are refused with a suggestion") {
  Settings s;
  const auto key = set_setting(s, "forward_prefech", "1");
  REQUIRE_FALSE(key);
  CHECK(key.error().hint == "did you mean 'forward_prefetch'?");
  const auto word = set_setting(s, "all_gather", "ncl");
  REQUIRE_FALSE(word);
  CHECK(word.error().hint == "did you mean 'nccl'?");
  CHECK(word.error().what.find("all_gather") != std::string::npos);
  CHECK_FALSE(set_setting(s, "gpus", "0"));
  CHECK_FALSE(set_setting(s, "gpus", "-4"));
  CHECK_FALSE(set_setting(s, "offload", "yes"));
  CHECK_FALSE(set_setting(s, "pytorch", "1.13"));
  CHECK_FALSE(set_setting(s, "pytorch", "2.13~no-such-rule"));
  CHECK_FALSE(set_setting(s, "pytorch", "2.13~"));
  CHECK_FALSE(set_setting(s, "pytorch", "2.11~ties-by-creation"));        // which came with 2.13
  CHECK_FALSE(set_setting(s, "pytorch", "2.13~recompute-casts-inputs"));  // which no plan follows
  const auto misspelt = set_setting(s, "pytorch", "2.13~ties-by-creatoin");
  REQUIRE_FALSE(misspelt);
  CHECK(misspelt.error().hint == "did you mean 'ties-by-creation'?");
  CHECK_FALSE(set_setting(s, "param_dtype", "int64"));
  CHECK_FALSE(set_setting(s, "prefetch_lists", "{\"forwards\": {}}"));
  CHECK_FALSE(set_setting(s, "prefetch_lists", "{\"forward\": {\"a\": [1]}}"));
  CHECK_FALSE(set_setting(s, "prefetch_lists", "[[["));
  CHECK(s == Settings{});
}

TEST_CASE("the PyTorch versions that are accepted are those that help and messages name") {
  REQUIRE(kKnownPyTorch.back() == kMainPyTorch);
  const std::string newest(kKnownPyTorch[kKnownPyTorch.size() - 2]);
  CHECK(std::string(kKnownPyTorch.front()) + " … " + newest + ", main" == kKnownPyTorchRange);
  CHECK(known_pytorch_version("2.9.1+cu128") == "2.9");
  CHECK(known_pytorch_version("main") == "main");
  CHECK(pytorch_minor("main") == kMainMinor);
  CHECK(pytorch_minor(newest) == kMainMinor - 1);
  CHECK_FALSE(known_pytorch_version("2.15"));
  CHECK_FALSE(known_pytorch_version("2"));
  CHECK(nearest_pytorch_version("2.15.0+cu130") == "main");
  CHECK(nearest_pytorch_version("2.1") == "2.6");
  CHECK(nearest_pytorch_version("1.13") == "2.6");
  CHECK(nearest_pytorch_version("3") == "main");
  CHECK_FALSE(nearest_pytorch_version("nightly"));
  CHECK(pytorch_minor("2.14.0") == 14);
  CHECK_FALSE(pytorch_minor("2.x"));
  for (const std::string_view version : kKnownPyTorch) {
    const auto minor = pytorch_minor(version);
    REQUIRE(minor);  // and the allocator has rules for it
    const bool in_range = *minor >= kAllocatorVersions.oldest && *minor <= kAllocatorVersions.newest;
    CHECK((in_range || version == kMainPyTorch));
  }
  CHECK(known_pytorch_version(kCheckedPyTorch));
  CHECK(known_pytorch_version(kFsdpSchedule));
}

TEST_CASE("check rejects what fully_shard and the device mesh reject") {
  Settings s;
  s.gpus = 4;
  CHECK(check(s));
  s.replicate = 3;
  CHECK_FALSE(check(s));
  s.replicate = 2;
  CHECK(check(s));
  s.reshard_after_forward = {Reshard::Kind::group, 4};
  const auto result = check(s);
  REQUIRE_FALSE(result);
  CHECK(result.error().what == "reshard_after_forward: 4 does not divide the 2 shard ranks");
  s.reshard_after_forward = {Reshard::Kind::group, 2};
  CHECK(check(s));
  s.reshard_of_unit["layers.0"] = {Reshard::Kind::group, 3};
  CHECK_FALSE(check(s));
  s.reshard_of_unit.clear();
  s.gpus = 0xffffffff;
  CHECK_FALSE(check(s));
}

TEST_CASE("expert-parallel ranks divide the shard dimension, and one gets all tokens of its group at most") {
  Settings s;
  s.gpus = 8;
  s.replicate = 2;
  s.expert_parallel = 4;
  REQUIRE(set_setting(s, "router_imbalance", "1.25"));
  CHECK(s.router_imbalance == 1.25);
  CHECK(check(s));
  s.router_imbalance = 4.5;
  CHECK(check(s).error().what == "router_imbalance 4.5 with expert_parallel 4: it is 1 to 4");
  s.tensor_parallel = 3;  // it divides nothing either: what is not modelled is said first
  CHECK(check(s).error().what == "tensor_parallel together with expert_parallel is not modelled");
  s.tensor_parallel = 1;
  s.router_imbalance = 1;
  s.reshard_after_forward = {Reshard::Kind::group, 2};
  CHECK_FALSE(check(s));
  s.reshard_after_forward = {};
  s.expert_parallel = 3;
  CHECK(check(s).error().what == "expert_parallel 3 does not divide the 4 shard ranks");
  for (const char* wrong : {"0.9", "nan", "1e0", "", "1,5", "-1"}) {
    INFO(wrong);
    CHECK_FALSE(set_setting(s, "router_imbalance", wrong));
  }
}

TEST_CASE("more reduce-scatter inputs are refused where FSDP2 has no such call or refuses it") {
  Settings s;
  s.gpus = 4;
  s.reduce_scatter_max_input_buffers = 2;
  CHECK_FALSE(check(s));  // 2.11
  for (const char* version : {"2.6", "2.12", "2.13~reduce-input-cap"}) {
    s.pytorch = version;
    CHECK_FALSE(check(s));
  }
  for (const char* version : {"2.13", "2.14", "main"}) {
    s.pytorch = version;
    CHECK(check(s));
  }
  s.reduce_scatter = Transport::symmetric;
  CHECK_FALSE(check(s));
  s.reduce_scatter_max_input_buffers = 1;
  CHECK(check(s));
  s.reduce_scatter_max_input_buffers = 0;  // test_set_reduce_scatter_max_input_buffers_validation
  CHECK_FALSE(check(s));
}

TEST_CASE("a CUDA graph is none, its warm-up steps, or eager ones and those") {
  Settings s;
  const auto set = [&](const char* value) { return set_setting(s, "cuda_graph", value).has_value(); };
  REQUIRE(set("4+3"));
  CHECK(s.cuda_graph == CudaGraph{4, 3});
  REQUIRE(set("3"));
  CHECK(s.cuda_graph == CudaGraph{0, 3});
  CHECK(check(s));
  for (const char* wrong : {"true", "false", "0", "3+0", "+3", "3+", "a", "-1", "3+3+3"}) CHECK_FALSE(set(wrong));
  for (const char* many : {"65", "40+40", "4294967295+1", "4294967290+7"}) {
    INFO(many);
    REQUIRE(set(many));
    CHECK_FALSE(check(s));
  }
  REQUIRE(set("none"));
  CHECK_FALSE(s.cuda_graph);
  s.cuda_graph = CudaGraph{};
  s.offload = true;
  CHECK_FALSE(check(s));
  s.offload = false;
  s.post_optimizer_event = true;
  CHECK_FALSE(check(s));
}

TEST_CASE("float8 is a choice of foreshard's own program, kernels and bfloat16") {
  Settings s;
  s.float8 = Float8::tensorwise;
  CHECK_FALSE(check(s));
  s.kernels = Kernels::fused;
  CHECK(check(s));  // the model's own dtype decides
  s.param_dtype = DType::bfloat16;
  CHECK(check(s));
  CHECK(of_own_program(s) == std::vector<std::string>{"float8"});
  s.param_dtype = DType::float16;
  CHECK_FALSE(check(s));
  Settings read;
  CHECK_FALSE(set_setting(read, "param_dtype", "float8_e4m3fn"));
  CHECK(set_setting(read, "float8", "tensorwise"));
  CHECK(read.float8 == Float8::tensorwise);
}

TEST_CASE("all-gathers in float8 are of what float8 multiplies, in forms that are built") {
  Settings s;
  s.gpus = 4;
  s.kernels = Kernels::fused;
  s.param_dtype = DType::bfloat16;
  s.float8 = Float8::tensorwise;
  s.float8_all_gather = true;
  CHECK(check(s));
  CHECK(of_own_program(s) == std::vector<std::string>{"float8", "float8_all_gather"});
  const auto refused = [&](auto change) {
    Settings other = s;
    change(other);
    return !check(other);
  };
  CHECK(refused([](Settings& o) { o.float8 = Float8::none; }));
  CHECK(refused([](Settings& o) { o.gpus = 1; }));
  CHECK(refused([](Settings& o) { o.offload = true; }));
  CHECK(refused([](Settings& o) { o.cuda_graph = CudaGraph{}; }));
  CHECK(refused([](Settings& o) { o.reshard_after_forward = {Reshard::Kind::group, 2}; }));
  CHECK(refused([](Settings& o) { o.reshard_of_unit["layers.0"] = {Reshard::Kind::group, 2}; }));
  CHECK(refused([](Settings& o) {
    o.all_gather = Transport::low_contention;
    o.optimizer = Optimizer::sgd;
    o.all_gather_input = AllGatherInput::optimizer;
  }));
  CHECK_FALSE(refused([](Settings& o) { o.replicate = 2; }));
  CHECK_FALSE(refused([](Settings& o) { o.optimizer_overlap = OptimizerOverlap::forward; }));
}

TEST_CASE("foreshard's own program leaves copies out where its collectives serve the group") {
  Settings s;
  s.gpus = 4;
  s.all_gather = s.reduce_scatter = Transport::low_contention;
  s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  s.reduce_scatter_input = ReduceScatterInput::gradients;
  CHECK(check(s));
  CHECK(of_own_program(s) == std::vector<std::string>{"all_gather_layout", "reduce_scatter_input"});
  const auto refused = [&](auto change) {
    Settings other = s;
    change(other);
    return !check(other);
  };
  CHECK(refused([](Settings& o) { o.all_gather = Transport::copy_engine; }));
  CHECK(refused([](Settings& o) { o.reduce_scatter = Transport::nccl; }));
  CHECK(refused([](Settings& o) { o.nodes = 2; }));
  CHECK(refused([](Settings& o) { o.gpus = 16; }));
  CHECK(refused([](Settings& o) { o.nodes = o.tensor_parallel = 2; }));  // a shard group of every other rank
  CHECK(refused([](Settings& o) { o.accumulate = 2; }));
  CHECK(refused([](Settings& o) { o.offload = true; }));
  CHECK(refused([](Settings& o) { o.cuda_graph = CudaGraph{}; }));
  CHECK(refused([](Settings& o) { o.release = Release::record_stream; }));
  CHECK(refused([](Settings& o) { o.reduce_scatter_release = Release::record_stream; }));
  CHECK(refused([](Settings& o) { o.reshard_of_unit["layers.0"] = {Reshard::Kind::group, 2}; }));
  CHECK_FALSE(refused([](Settings& o) {
    o.nodes = 2;
    o.replicate = 2;
  }));
}

TEST_CASE("the optimizer writes the input of foreshard's own all-gathers, in its only pass") {
  Settings s;
  s.gpus = 4;
  s.all_gather = Transport::low_contention;
  s.all_gather_input = AllGatherInput::optimizer;
  s.optimizer = Optimizer::adam_fused;
  CHECK(check(s));
  CHECK(warnings(s).empty());
  CHECK(of_own_program(s) == std::vector<std::string>{"all_gather_input"});
  const auto refused = [&](auto change) {
    Settings other = s;
    change(other);
    return !check(other);
  };
  CHECK(refused([](Settings& o) { o.all_gather = Transport::nccl; }));
  CHECK(refused([](Settings& o) { o.optimizer = Optimizer::adam; }));
  CHECK(refused([](Settings& o) { o.optimizer = Optimizer::adam_single; }));
  CHECK(refused([](Settings& o) { o.nodes = 2; }));
  CHECK(refused([](Settings& o) { o.offload = true; }));
  CHECK(refused([](Settings& o) { o.cuda_graph = CudaGraph{}; }));
  CHECK_FALSE(refused([](Settings& o) { o.optimizer = Optimizer::sgd; }));
  CHECK_FALSE(refused([](Settings& o) { o.accumulate = 2; }));
  s.gpus = 1;
  CHECK(warnings(s).size() == 1);
}

TEST_CASE("an optimizer that overlaps has no other order beside it") {
  for (const OptimizerOverlap overlap : {OptimizerOverlap::backward, OptimizerOverlap::forward}) {
    Settings s;
    s.optimizer_overlap = overlap;
    CHECK(check(s));
    Settings other = s;
    other.post_optimizer_event = true;
    CHECK_FALSE(check(other));
    other = s;
    other.offload = true;
    CHECK_FALSE(check(other));
    other = s;
    other.cuda_graph = CudaGraph{};
    CHECK_FALSE(check(other));
    other = s;
    other.accumulate = 2;
    CHECK(check(other));
    other.accumulate_with_sync = true;
    CHECK(check(other).has_value() == (overlap == OptimizerOverlap::forward));
  }
}

TEST_CASE("gradients that are kept are the GPU's, and no optimizer beside the passes frees them") {
  Settings s;
  s.set_to_none = false;
  CHECK(check(s));
  s.cuda_graph = CudaGraph{0, 3};
  CHECK(check(s));
  s.cuda_graph.reset();
  s.offload = true;
  const auto offloaded = check(s);
  REQUIRE_FALSE(offloaded);
  CHECK(offloaded.error().what == "set_to_none false with offload is not modelled");
  s.offload = false;
  s.optimizer_overlap = OptimizerOverlap::forward;
  CHECK_FALSE(check(s));
}

TEST_CASE("odd combinations are warnings") {
  Settings s;
  CHECK(warnings(s).empty());
  s.all_gather = Transport::copy_engine;
  CHECK(warnings(s).empty());
  s.nodes = 2;
  CHECK(warnings(s).size() == 1);
  s.pytorch = "2.12";
  CHECK(warnings(s).size() == 2);
}

TEST_CASE("what settings of foreshard's own program ask for is one hint") {
  Settings s;
  s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  s.reduce_scatter_input = ReduceScatterInput::gradients;
  s.float8 = Float8::tensorwise;
  REQUIRE_FALSE(check(s));
  CHECK(check(s).error().hint ==
        "take --all-gather low-contention --reduce-scatter low-contention --kernels fused --param-dtype bfloat16, and "
        "plan with --lowering foreshard");
  s.all_gather = s.reduce_scatter = Transport::low_contention;
  s.gpus = 4;
  CHECK(check(s).error().hint == "take --kernels fused --param-dtype bfloat16, and plan with --lowering foreshard");
}
