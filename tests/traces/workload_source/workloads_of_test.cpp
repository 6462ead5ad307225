#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "traces/workload_file/workload_file.hpp"
#include "traces/workload_source/workload_source.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

}  // namespace

TEST_CASE("generated workloads have the settings asked for, and are made once for what shapes them") {
  const auto source = read_source({"mlp", 512, 2});
  REQUIRE(source);
  const auto workloads = workloads_of(*source, machine());
  CHECK_FALSE(workloads->one_for_all());
  Settings settings = source->settings;
  settings.gpus = 4;
  const auto first = workloads->at(settings);
  REQUIRE(first);
  CHECK((*first)->settings == settings);
  settings.forward_prefetch = 2;
  const auto second = workloads->at(settings);
  REQUIRE(second);
  CHECK((*second)->settings == settings);
  CHECK((*second)->steps[0].ops.size() == (*first)->steps[0].ops.size());
  settings.batch = 8;
  CHECK((*workloads->at(settings))->settings.batch == 8U);
  CHECK(sim::from_model(**first));
}

TEST_CASE("a program made for other settings is the one that these would get") {
  const auto source = read_source({"llama-tiny", 256, 2});
  REQUIRE(source);
  const auto workloads = workloads_of(*source, machine());
  Settings base = source->settings;
  base.gpus = 4;
  base.param_dtype = DType::bfloat16;
  REQUIRE(workloads->at(base));
  std::vector<Settings> all;
  for (Transport t : {Transport::nccl_registered, Transport::symmetric, Transport::copy_engine}) {
    all.push_back(base);
    all.back().all_gather = t;
    all.push_back(base);
    all.back().reduce_scatter = t;
  }
  const auto with = [&](auto change) {
    all.push_back(base);
    change(all.back());
  };
  with([](Settings& s) { s.reshard_after_forward = {Reshard::Kind::group, 2}; });
  with([](Settings& s) { s.reduce_dtype = DType::float32; });
  with([](Settings& s) { s.unshard_async = true; });
  with([](Settings& s) { s.release = Release::record_stream; });
  with([](Settings& s) { s.gather_alloc = GatherAlloc::compute; });
  with([](Settings& s) { s.checkpoint = Checkpoint::blocks; });
  with([](Settings& s) { s.optimizer = Optimizer::sgd; });
  with([](Settings& s) { s.offload = true; });
  with([](Settings& s) { s.alloc_conf = "expandable_segments:True"; });
  for (const Settings& wanted : all) {
    const auto cached = workloads->at(wanted);
    REQUIRE(cached);
    const auto fresh = generate(source->model.value(), wanted, machine().host_calls, machine().gpu());
    REQUIRE(fresh);
    CHECK(to_json(**cached) == to_json(*fresh));
  }
}

TEST_CASE("programs share their steps where the settings leave these alone") {
  const auto model = preset("llama-tiny").value();
  Settings base;
  base.gpus = 4;
  base.param_dtype = DType::bfloat16;
  base.units_per_group = 2;
  const auto made = [&](const Settings& settings, bool keep_kernels, const ModelSteps* known) {
    return to_json(generate(model, settings, machine().host_calls, machine().gpu(), keep_kernels, known).value());
  };
  for (const bool keep_kernels : {false, true}) {
    const auto steps = generate_steps(model, base, machine().host_calls, machine().gpu(), keep_kernels);
    REQUIRE(steps);
    std::vector<Settings> all{base};
    const auto with = [&](auto change) {
      all.push_back(base);
      change(all.back());
    };
    with([](Settings& s) { s.gpus = 8; });
    with([](Settings& s) { s.nodes = 2; });
    with([](Settings& s) { s.replicate = 2; });
    with([](Settings& s) { s.optimizer = Optimizer::sgd; });
    with([](Settings& s) { s.fully_shard_embedding_and_head = true; });
    for (const Transport transport : {Transport::symmetric, Transport::copy_engine, Transport::low_contention})
      with([&](Settings& s) { s.all_gather = transport; });  // some of which make tensors in setup
    for (const Settings& settings : all)
      CHECK(made(settings, keep_kernels, &*steps) == made(settings, keep_kernels, nullptr));
  }
}

TEST_CASE("several threads get the programs that one gets") {
  const auto source = read_source({"llama-tiny", 256, 2});
  REQUIRE(source);
  std::vector<Settings> all;
  for (const std::uint32_t units : {1U, 2U})
    for (const Transport transport : {Transport::nccl, Transport::symmetric, Transport::copy_engine})
      for (const bool alone : {false, true})
        for (const std::uint32_t depth : {1U, 2U}) {  // two points of each program
          Settings& settings = all.emplace_back(source->settings);
          settings.gpus = 4;
          settings.units_per_group = units;
          settings.all_gather = transport;
          settings.fully_shard_embedding_and_head = alone;
          settings.forward_prefetch = depth;
        }
  const auto shared = workloads_of(*source, machine());
  std::vector<std::string> at_once(all.size());
  sim::for_each(all.size(), 4, [&](std::size_t i) {
    const auto profile = sim::builtin_profile("h100");  // read once, by whichever thread comes first
    const auto workload = shared->at(all[i]);
    if (profile && workload) at_once[i] = to_json(**workload);
  });
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(at_once[i] == to_json(**workloads_of(*source, machine())->at(all[i])));
}

TEST_CASE("a plan from a model has times, and no calibration to miss") {
  const auto source = read_source({"mlp", 1024, 2});
  REQUIRE(source);
  Settings settings = source->settings;
  settings.gpus = 4;
  const auto workload = workloads_of(*source, machine())->at(settings);
  REQUIRE(workload);
  const auto p = sim::predict(**workload, machine(), {settings, {}});
  REQUIRE(p);
  CHECK(p->has_time);
  CHECK(p->step_ms > 0);
  CHECK(p->interval.low_ms < p->step_ms);
  CHECK(p->interval.high_ms > p->step_ms);
  CHECK(p->host_scale.source == sim::HostScale::Source::none);
  for (const std::string& warning : p->warnings) CHECK(warning.find("unprofiled") == std::string::npos);
}

TEST_CASE("a workload that was not captured gets the machine's costs of FSDP2's sections and the optimizer") {
  auto model = read_source({"mlp", 512, 2});
  REQUIRE(model);
  Settings settings = model->settings;
  settings.gpus = 4;
  const auto generated = workloads_of(*model, machine())->at(settings);
  REQUIRE(generated);
  auto bare = std::make_shared<Workload>(**generated);
  bare->sections.clear();
  Source source;
  source.workload = bare;
  const auto completed = workloads_of(source, machine())->at(settings);
  REQUIRE(completed);
  CHECK(to_json(**completed) == to_json(**generated));
  const auto step_ms = [&](const Workload& workload) {
    return sim::predict(workload, machine(), {settings, {}})->step_ms;
  };
  CHECK(step_ms(**completed) == step_ms(**generated));

  settings.gpus = 8;  // the shards are half as large
  const auto wider = workloads_of(source, machine())->at(settings);
  REQUIRE(wider);
  CHECK_FALSE(to_json(**wider) == to_json(**completed));

  bare->optimizer_known = false;  // its ops are in the file
  CHECK(workloads_of(source, machine())->at(settings).value() == source.workload);
}

TEST_CASE("a stored model's workload plans what the model does, where the settings leave its ops alone") {
  const auto model = read_source({"llama-tiny", 256, 4});
  REQUIRE(model);
  Settings base = model->settings;
  base.gpus = 4;
  base.param_dtype = DType::bfloat16;
  const auto from_model = workloads_of(*model, machine());
  const auto made = from_model->at(base);
  REQUIRE(made);
  Source store;
  const auto read = from_json(to_json(**made), "store");
  REQUIRE(read);
  store.workload = std::make_shared<const Workload>(*read);
  const auto from_store = workloads_of(store, machine());
  CHECK(from_store->at(base).value() == store.workload);
  std::vector<Settings> all;
  const auto with = [&](auto change) {
    all.push_back(base);
    change(all.back());
  };
  with([](Settings& s) { s.optimizer = Optimizer::adam_fused; });
  with([](Settings& s) { s.optimizer = Optimizer::sgd; });
  with([](Settings& s) { s.reduce_dtype = DType::float32; });
  with([](Settings& s) { s.fully_shard_embedding_and_head = true; });
  with([](Settings& s) { s.offload = true; });
  with([](Settings& s) { s.gpus = 8; });
  with([](Settings& s) { s.nodes = s.replicate = 2; });
  with([](Settings& s) { s.separate_reduce_scatter_group = true; });
  with([](Settings& s) { s.forward_prefetch = 2; });
  with([](Settings& s) { s.release = Release::record_stream; });
  with([](Settings& s) { s.all_gather = Transport::copy_engine; });
  with([](Settings& s) {
    s.fully_shard_embedding_and_head = true;
    s.optimizer = Optimizer::adam_fused;
    s.reshard_of_unit["norm, head"] = {Reshard::Kind::always, 0};
  });
  for (const Settings& wanted : all) {
    const auto expected = from_model->at(wanted);
    const auto workload = from_store->at(wanted);
    REQUIRE(expected);
    INFO((workload ? std::string() : workload.error().text()));
    REQUIRE(workload);
    const auto a = sim::predict(**expected, machine(), {wanted, {}});
    const auto b = sim::predict(**workload, machine(), {wanted, {}});
    REQUIRE(a);
    INFO((b ? std::string() : b.error().text()));
    REQUIRE(b);
    CHECK(b->step_ms == a->step_ms);
    CHECK(b->peaks == a->peaks);
    CHECK(b->time_unknown.empty());
  }
}

TEST_CASE("what a preset made is planned as the preset is, at any settings") {
  const auto model = read_source({"llama-tiny", 256, 2});
  REQUIRE(model);
  Settings base = model->settings;
  base.gpus = 4;
  const auto from_model = workloads_of(*model, machine());
  Source store;
  store.workload = from_model->at(base).value();
  store.preset = model->model;
  const auto from_store = workloads_of(store, machine());
  CHECK(from_store->at(base).value() == store.workload);
  const auto same = [&](auto change) {
    Settings wanted = base;
    change(wanted);
    return to_json(**from_store->at(wanted)) == to_json(**from_model->at(wanted));
  };
  CHECK(same([](Settings& s) { s.checkpoint = Checkpoint::blocks; }));
  CHECK(same([](Settings& s) { s.accumulate = 2; }));
  CHECK(same([](Settings& s) { s.batch = 3; }));
  CHECK(same([](Settings& s) { s.param_dtype = DType::bfloat16; }));
  CHECK(same([](Settings& s) { s.units_per_group = 2; }));
  store.preset->ffn *= 2;  // the preset of another version: the stored program is what there is
  const auto another = workloads_of(store, machine());
  Settings wanted = base;
  wanted.checkpoint = Checkpoint::blocks;
  CHECK((*another->at(wanted))->steps[0].ops.size() == store.workload->steps[0].ops.size());
}

TEST_CASE("a stored preset's options are read as they are written") {
  SourceRequest request{"llama-tiny"};
  request.frozen = {"layers.0.*", "tok*"};
  const auto model = stored_preset("llama-tiny", model_options(request));
  REQUIRE(model);
  CHECK(model->frozen == request.frozen);
  CHECK_FALSE(stored_preset("llama-tiny", "--freeze 'tok*' --unknown 3"));
}

TEST_CASE("what a stored model's program lacks is not planned") {
  const auto model = read_source({"llama-tiny", 256, 2});
  REQUIRE(model);
  Settings settings = model->settings;
  settings.gpus = 4;
  settings.offload = true;
  settings.checkpoint = Checkpoint::blocks;
  Source store;
  store.workload = workloads_of(*model, machine())->at(settings).value();
  const auto from_store = workloads_of(store, machine());
  for (const bool offload : {false, true}) {
    Settings wanted = settings;
    wanted.offload = offload;
    if (offload) wanted.checkpoint = Checkpoint::none;
    const auto workload = from_store->at(wanted);
    REQUIRE(workload);
    CHECK_FALSE(sim::predict(**workload, machine(), {wanted, {}}));
  }
}

TEST_CASE("a model stored with another host's costs keeps what it has") {
  const auto model = read_source({"llama-tiny", 256, 2});
  REQUIRE(model);
  Settings settings = model->settings;
  settings.gpus = 4;
  Source store;
  store.workload = workloads_of(*model, machine())->at(settings).value();
  sim::MachineProfile other = machine();
  other.host_calls.time[static_cast<std::size_t>(HostCall::optimizer_launch)] = {1};
  settings.optimizer = Optimizer::adam_fused;
  CHECK(workloads_of(store, other)->at(settings).value() == store.workload);
  CHECK_FALSE(workloads_of(store, machine())->at(settings).value() == store.workload);
}

TEST_CASE("units of a stored model are made of single blocks, and stay what they are otherwise") {
  const auto model = read_source({"llama-tiny", 256, 4});
  REQUIRE(model);
  Settings base = model->settings;
  base.gpus = 4;
  const auto from_model = workloads_of(*model, machine());
  const auto stored_at = [&](const Settings& settings) {
    Source store;
    store.workload = from_model->at(settings).value();
    return store;
  };
  const auto plan = [&](sim::WorkloadSource& source, const Settings& wanted) {
    const auto workload = source.at(wanted);
    REQUIRE(workload);
    return sim::predict(**workload, machine(), {wanted, {}});
  };
  Settings apart = base;
  apart.fully_shard_embedding_and_head = true;
  Settings pairs = base;
  pairs.units_per_group = 2;
  Settings both = pairs;
  both.fully_shard_embedding_and_head = true;
  const Source single = stored_at(base), split = stored_at(apart), grouped = stored_at(pairs);
  const auto expected = plan(*from_model, both);
  REQUIRE(expected);
  for (const Source* source : {&single, &split}) {
    const auto p = plan(*workloads_of(*source, machine()), both);
    REQUIRE(p);
    CHECK(p->run.units.size() == expected->run.units.size());
    CHECK(p->run.units[2].name == "layers.0, layers.1");
    CHECK(p->step_ms == Approx(expected->step_ms).epsilon(0.02));
  }
  CHECK_FALSE(plan(*workloads_of(grouped, machine()), base));
  const auto back = plan(*workloads_of(split, machine()), base);
  REQUIRE_FALSE(back);
  CHECK(back.error().what.find("units of their own") != std::string::npos);
}

TEST_CASE("a recording's root is not taken apart") {
  const auto model = read_source({"llama-tiny", 256, 2});
  REQUIRE(model);
  Settings wanted = model->settings;
  wanted.gpus = 4;
  auto recorded = std::make_shared<Workload>(**workloads_of(*model, machine())->at(wanted));
  recorded->measured = Measured{};
  Source store;
  store.workload = recorded;
  wanted.fully_shard_embedding_and_head = true;
  const auto refused = sim::predict(**workloads_of(store, machine())->at(wanted), machine(), {wanted, {}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("the recording gathers embedding and head with the root") == 0);
}

TEST_CASE("a model needs the host's costs") {
  sim::MachineProfile bare = machine();
  bare.host_calls_known = false;
  const auto source = read_source({"mlp", 512, 2});
  REQUIRE(source);
  const auto refused = workloads_of(*source, bare)->at(source->settings);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().hint.find("/host/calls") != std::string::npos);
}
