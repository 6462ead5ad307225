// Whole training steps with real numbers on the host: what FSDP2's schedule moves must be what plain training computes,
// whatever the settings.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <thread>

#include "core/models/generate.hpp"
#include "core/settings/settings_names.hpp"
#include "core/step/step_runner.hpp"
#include "tests/catch.hpp"
#include "tests/contract/host_device.hpp"
#include "tests/contract/host_math.hpp"

using namespace foreshard;

namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::int32_t kSteps = 3;
constexpr std::uint32_t kBeforeCapture = 1;
constexpr double kLearningRate = 1e-2;

/// By step and parameter; kUnseen where no rank has the element.
using Elements = std::map<std::pair<std::int32_t, std::uint32_t>, std::vector<double>>;
constexpr double kUnseen = std::numeric_limits<double>::infinity();

/// What one rank saw.
class Values final : public ValueObserver {
 public:
  void loss(std::int32_t, Address address) override { losses.push_back(load_element(address, DType::float32)); }
  void gradients(std::int32_t step, std::span<const ShardedGradient> gradients) override {
    for (const ShardedGradient& g : gradients)
      for (const bool shard : {false, true}) {
        if (g.numel == 0) continue;
        std::vector<double>& seen = (shard ? parameters : by_element)[{step, g.parameter.value}];
        seen.resize(std::max<std::size_t>(seen.size(), g.first + g.numel), kUnseen);
        for (std::uint64_t i = 0; i < g.numel; ++i)
          seen[g.first + i] = load_element((shard ? g.shard : g.gradient) + i * itemsize(g.dtype), g.dtype);
      }
  }
  std::vector<double> losses;
  Elements by_element;
  Elements parameters;
};

struct Trained {
  std::vector<std::vector<double>> losses;  // by rank, by step
  Elements gradients;
  Elements parameters;                                   // before the step's update
  std::vector<std::pair<std::string, Bytes>> kernels;    // of rank 0
  std::vector<std::pair<std::string, Bytes>> optimizer;  // of one step, as planned
};

ModelConfig small_mlp() {
  ModelConfig c;
  c.name = "mlp";
  c.family = ModelFamily::mlp;
  c.dim = c.ffn = 10;  // over four ranks: padded
  c.layers = 3;
  c.default_batch = 3;
  return c;
}

ModelConfig small_llama() {
  ModelConfig c;
  c.name = "llama";
  c.family = ModelFamily::llama;
  c.dim = 24;
  c.ffn = 40;
  c.heads = c.kv_heads = 3;
  c.head_dim = 8;
  c.layers = 3;
  c.vocab = 37;
  c.default_batch = 2;
  c.default_seq = 6;
  return c;
}

ModelConfig small_transformer() {
  ModelConfig c;
  c.name = "torch-transformer";
  c.family = ModelFamily::torch_transformer;
  c.dim = 24;
  c.heads = c.kv_heads = 3;
  c.head_dim = 8;
  c.ffn = 96;
  c.layers = 2;
  c.vocab = 31;
  c.positions = 6;
  c.dropout = 0;
  c.tied_embedding = true;
  c.default_batch = 2;
  c.default_seq = 6;
  return c;
}

Settings four_ranks() {
  Settings s;
  s.gpus = kRanks;
  return s;
}

/// Adds what one rank saw, parameters by their place in model.parameters(), whatever units they are in.
void add_seen(Elements& all, const std::vector<ParameterId>& order, const Elements& of_rank) {
  for (const auto& [key, seen] : of_rank) {
    const auto place = std::find(order.begin(), order.end(), ParameterId{key.second});
    std::vector<double>& into = all[{key.first, static_cast<std::uint32_t>(place - order.begin())}];
    into.resize(std::max(into.size(), seen.size()), kUnseen);
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i] != kUnseen) into[i] = seen[i];
  }
}

/// `groups`: each unit's first parameter is in an FSDPParamGroup of its own.
Trained train(const ModelConfig& model, const Settings& settings, bool groups = false) {
  auto workload = generate(model, settings, HostCosts{}, 132, true);
  REQUIRE(workload.has_value());
  for (Unit& unit : workload->units)
    if (groups && unit.parameters.size() > 1) unit.groups = {1, static_cast<std::uint32_t>(unit.parameters.size() - 1)};
  REQUIRE(computes(*workload));
  HostWorld world;
  std::vector<Values> values(settings.world());
  std::vector<std::string> errors(settings.world());
  std::vector<std::uint64_t> launched(settings.world());
  std::vector<std::thread> ranks;
  Trained out;
  for (std::uint32_t rank = 0; rank < settings.world(); ++rank)
    ranks.emplace_back([&, rank] {
      HostDevice device(world, rank);
      HostMemory memory;
      Run run;
      StepRequest request;
      request.steps = kSteps;
      request.record = false;
      request.rank = rank;
      request.lowering = Lowering::foreshard;
      request.learning_rate = kLearningRate;
      request.observer = &values[rank];
      const auto outcome = run_steps(*workload, workload->settings, request, device, memory, run);
      if (!outcome) errors[rank] = outcome.error().what;
      launched[rank] = device.launched();
      if (rank != 0) return;
      for (const KernelWork& work : device.computed())
        out.kernels.emplace_back(workload->labels.text(work.label), work.bytes);
    });
  for (std::thread& rank : ranks) rank.join();
  for (const SectionCost& section : workload->sections)
    if (section.section == Section::optimizer)
      for (const SectionItem& item : section.items)
        out.optimizer.emplace_back(workload->labels.text(item.label), item.bytes);
  for (std::uint32_t rank = 0; rank < settings.world(); ++rank) {
    CHECK(errors[rank].empty());
    CHECK(launched[rank] == 0);
    out.losses.push_back(values[rank].losses);
    add_seen(out.gradients, workload->parameters_order, values[rank].by_element);
    add_seen(out.parameters, workload->parameters_order, values[rank].parameters);
  }
  return out;
}

double worst_difference(const Trained& a, const Trained& b) {
  double worst = 0;
  double largest = 0;
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (const auto& [key, values] : a.gradients) {
    const auto other = b.gradients.find(key);
    REQUIRE(other != b.gradients.end());
    REQUIRE(other->second.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == kUnseen && other->second[i] == kUnseen) continue;
      const double difference = std::abs(values[i] - other->second[i]);
      if (!std::isfinite(difference)) FAIL("element " << i << " of parameter " << key.second << " is not finite");
      worst = std::max(worst, difference);
      largest = std::max(largest, std::abs(values[i]));
    }
  }
  REQUIRE(largest > 0);
  return worst / largest;
}

std::vector<std::pair<std::string, Settings>> same_numbers() {
  std::vector<std::pair<std::string, Settings>> out;
  const auto add = [&](const std::string& name, auto change) {
    Settings s = four_ranks();
    change(s);
    out.emplace_back(name, s);
  };
  add("explicit prefetch", [](Settings& s) { s.forward_prefetch = s.backward_prefetch = 2; });
  add("unshard async", [](Settings& s) { s.unshard_async = true; });
  add("no reshard", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::never, 0}; });
  add("reshard to two", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::group, 2}; });
  add("record_stream", [](Settings& s) { s.release = Release::record_stream; });
  add("gathers on the compute stream", [](Settings& s) { s.gather_alloc = GatherAlloc::compute; });
  for (const OptimizerOverlap overlap : {OptimizerOverlap::backward, OptimizerOverlap::forward}) {
    const std::string beside = "optimizer beside " + std::string(name(overlap));
    add(beside, [&](Settings& s) { s.optimizer_overlap = overlap; });
    add(beside + ", HSDP", [&](Settings& s) {
      s.optimizer_overlap = overlap;
      s.replicate = 2;
    });
  }
  const auto without_copies = [](Settings& s) {
    s.gpus = s.world();
    s.nodes = 1;
    s.all_gather = s.reduce_scatter = Transport::low_contention;
    s.all_gather_layout = AllGatherLayout::parameter_contiguous;
    s.reduce_scatter_input = ReduceScatterInput::gradients;
  };
  add("parameter-contiguous, gradients as they are", without_copies);
  add("the same, no reshard, explicit prefetch", [&](Settings& s) {
    without_copies(s);
    s.reshard_after_forward = {Reshard::Kind::never, 0};
    s.forward_prefetch = s.backward_prefetch = 1;
  });
  add("the same, two blocks a unit, gathers on the compute stream", [&](Settings& s) {
    without_copies(s);
    s.units_per_group = 2;
    s.gather_alloc = GatherAlloc::compute;
  });
  for (const OptimizerOverlap overlap : {OptimizerOverlap::backward, OptimizerOverlap::forward})
    add("all of it", [&](Settings& s) {
      without_copies(s);
      s.optimizer_overlap = overlap;
      s.reshard_after_forward = {Reshard::Kind::never, 0};
    });
  add("two blocks a unit", [](Settings& s) { s.units_per_group = 2; });
  add("checkpointing", [](Settings& s) { s.checkpoint = Checkpoint::blocks; });
  add("copy engine, pull-reduce", [](Settings& s) {
    s.all_gather = Transport::copy_engine;
    s.reduce_scatter = Transport::pull_reduce;
  });
  add("symmetric", [](Settings& s) { s.all_gather = s.reduce_scatter = Transport::symmetric; });
  add("reduce-scatters by a communicator of their own", [](Settings& s) { s.separate_reduce_scatter_group = true; });
  add("two groups of two", [](Settings& s) { s.replicate = 2; });
  return out;
}

/// The largest difference, in learning rates, of a parameter from torch.optim's formulas in float64 on the gradients
/// that the ranks saw.
double worst_update(const Trained& trained, bool adam) {
  double worst = 0;
  for (const auto& [key, begin] : trained.parameters) {
    if (key.first != 0) continue;
    std::vector<double> p = begin;
    std::vector<double> m(p.size());
    std::vector<double> v(p.size());
    for (std::int32_t s = 0; s + 1 < kSteps; ++s) {
      const std::vector<double>& gradients = trained.gradients.at({s, key.second});
      const std::vector<double>& updated = trained.parameters.at({s + 1, key.second});
      const double of_m = 1 - std::pow(0.9, s + 1);
      const double of_v = std::sqrt(1 - std::pow(0.999, s + 1));
      REQUIRE(gradients.size() == p.size());
      REQUIRE(updated.size() == p.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        if (begin[i] == kUnseen) continue;
        const double g = gradients[i];
        m[i] += (1 - 0.9) * (g - m[i]);
        v[i] = 0.999 * v[i] + (1 - 0.999) * g * g;
        p[i] -= kLearningRate * (adam ? m[i] / of_m / (std::sqrt(v[i]) / of_v + 1e-8) : g);
        const double difference = std::abs(p[i] - updated[i]);
        if (!std::isfinite(difference)) FAIL("element " << i << " of parameter " << key.second << " is not finite");
        worst = std::max(worst, difference);
      }
    }
  }
  return worst / kLearningRate;
}

void check_settings(const ModelConfig& model) {
  const Trained plain = train(model, four_ranks());
  REQUIRE(plain.losses.front().size() == kSteps);
  for (const auto& [name, settings] : same_numbers()) {
    INFO(name);
    const Trained other = train(model, settings);
    CHECK(worst_difference(plain, other) < 1e-5);
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      for (std::size_t step = 0; step < kSteps; ++step)
        CHECK(other.losses[rank][step] == Approx(plain.losses[rank][step]).margin(1e-6));
  }
}

}  // namespace

TEST_CASE("an MLP trains alike under every setting that must not change numbers", "[host]") {
  check_settings(small_mlp());
}

TEST_CASE("a Llama trains alike under every setting that must not change numbers", "[host]") {
  check_settings(small_llama());
}

TEST_CASE("LoRA of a Llama trains alike under every setting that must not change numbers", "[host]") {
  ModelConfig model = small_llama();
  model.lora = {2, {"wq", "w2"}};
  check_settings(model);
}

TEST_CASE("a Transformer trains alike under every setting that must not change numbers", "[host]") {
  check_settings(small_transformer());
}

// Bit for bit: a step reads what it would have cast itself.
TEST_CASE("all-gathers of what the optimizer wrote train as those that are copied in", "[host]") {
  std::vector<std::pair<std::string, Settings>> all;
  const auto add = [&](const std::string& name, auto change) {
    Settings s = four_ranks();
    s.all_gather = s.reduce_scatter = Transport::low_contention;
    s.optimizer = Optimizer::adam_fused;
    s.param_dtype = DType::bfloat16;
    s.reduce_dtype = DType::float32;
    change(s);
    all.emplace_back(name, s);
  };
  const auto contiguous = [](Settings& s) { s.all_gather_layout = AllGatherLayout::parameter_contiguous; };
  add("rank-major", [](Settings&) {});
  add("float32, SGD", [](Settings& s) {
    s.param_dtype = s.reduce_dtype = std::nullopt;
    s.optimizer = Optimizer::sgd;
  });
  add("parameter-contiguous", contiguous);
  add("accumulated", [&](Settings& s) {
    contiguous(s);
    s.accumulate = 2;
  });
  add("HSDP, async", [](Settings& s) {
    s.replicate = 2;
    s.unshard_async = true;
  });
  add("a smaller group", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::group, 2}; });
  for (const OptimizerOverlap overlap : {OptimizerOverlap::backward, OptimizerOverlap::forward})
    for (const bool keeps : {false, true})
      add("overlap " + std::string(name(overlap)), [&](Settings& s) {
        contiguous(s);
        s.reduce_scatter_input = ReduceScatterInput::gradients;
        s.optimizer_overlap = overlap;
        if (keeps) s.reshard_after_forward = {Reshard::Kind::never, 0};
      });
  ModelConfig tuned = small_llama();
  tuned.lora = {2, {"wq", "w2"}};  // frozen parameters, which no optimizer writes
  for (const ModelConfig& model : {small_mlp(), small_llama(), tuned})
    for (auto& [name, settings] : all) {
      INFO(model.name << ", " << name);
      settings.all_gather_input = AllGatherInput::copy_in;
      const Trained copied = train(model, settings);
      settings.all_gather_input = AllGatherInput::optimizer;
      const Trained written = train(model, settings);
      CHECK(written.losses == copied.losses);
      CHECK(written.gradients == copied.gradients);
      CHECK(written.parameters == copied.parameters);
      CHECK(written.kernels.size() < copied.kernels.size());
    }
}

TEST_CASE("units of two parameter groups train alike", "[host]") {
  Settings mixed = four_ranks();
  mixed.param_dtype = DType::bfloat16;
  mixed.reduce_dtype = DType::float32;
  mixed.accumulate = 2;
  Settings small = four_ranks();
  small.reshard_after_forward = {Reshard::Kind::group, 2};
  for (Settings settings : {four_ranks(), mixed, small}) {
    settings.pytorch = "2.12";  // the first with such groups
    CHECK(worst_difference(train(small_llama(), settings), train(small_llama(), settings, true)) < 1e-5);
  }
}

TEST_CASE("embedding and head train alike as units of their own", "[host]") {
  Settings apart = four_ranks();
  apart.fully_shard_embedding_and_head = true;
  Settings prefetched = apart;
  prefetched.forward_prefetch = prefetched.backward_prefetch = 2;
  prefetched.units_per_group = 2;
  Settings resharded = apart;
  resharded.reshard_of_unit["norm, head"] = {Reshard::Kind::always, 0};
  const Trained plain = train(small_llama(), four_ranks());
  for (const Settings& settings : {apart, prefetched, resharded}) {
    const Trained other = train(small_llama(), settings);
    CHECK(worst_difference(plain, other) < 1e-5);
    CHECK(other.losses.front().back() == Approx(plain.losses.front().back()).margin(1e-6));
  }
}

TEST_CASE("fused kernels train as eager ones do", "[host]") {
  Settings fused = four_ranks();
  fused.kernels = Kernels::fused;
  ModelConfig grouped = small_llama();  // float32: PyTorch's math fallback against one kernel
  grouped.kv_heads = 1;
  for (const ModelConfig& model : {small_mlp(), small_llama(), small_transformer(), grouped}) {
    INFO(model.name);
    CHECK(worst_difference(train(model, four_ranks()), train(model, fused)) < 1e-5);
    fused.checkpoint = Checkpoint::blocks;
    CHECK(worst_difference(train(model, four_ranks()), train(model, fused)) < 1e-5);
    fused.checkpoint = Checkpoint::none;
  }
}

ModelConfig small_float8_llama() {
  ModelConfig model = small_llama();
  model.dim = 32;
  model.ffn = 48;
  model.heads = model.kv_heads = 2;
  model.head_dim = 16;
  model.default_seq = 8;
  return model;
}

Settings float8_on_four_ranks() {
  Settings s = four_ranks();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  s.kernels = Kernels::fused;
  s.float8 = Float8::tensorwise;
  return s;
}

TEST_CASE("float8 trains near bfloat16, and alike whatever moves the parameters", "[host]") {
  const ModelConfig model = small_float8_llama();
  const Settings float8 = float8_on_four_ranks();
  Settings narrow = float8;
  narrow.float8 = Float8::none;
  const Trained expected = train(model, narrow);
  const Trained plain = train(model, float8);
  for (std::size_t step = 0; step < expected.losses.front().size(); ++step)
    CHECK(plain.losses.front()[step] == Approx(expected.losses.front()[step]).epsilon(0.01));
  Settings kept = float8;
  kept.reshard_after_forward = {Reshard::Kind::never, 0};
  Settings own = kept;
  own.all_gather = own.reduce_scatter = Transport::low_contention;
  own.all_gather_layout = AllGatherLayout::parameter_contiguous;
  own.reduce_scatter_input = ReduceScatterInput::gradients;
  own.optimizer_overlap = OptimizerOverlap::forward;
  for (const Settings& settings : {kept, own}) CHECK(train(model, settings).losses == plain.losses);
}

// The largest of the shards' largest elements is the whole weight's, and a cast knows no neighbours: so the bits are
// those of weights that are gathered in bfloat16 and cast behind it, in losses and in gradients.
TEST_CASE("weights gathered in float8 are those that are cast behind the gather, bit for bit", "[host]") {
  const ModelConfig model = small_float8_llama();
  const Trained expected = train(model, float8_on_four_ranks());
  const auto check_alike = [&](const std::string& what, auto change) {
    INFO(what);
    Settings settings = float8_on_four_ranks();
    settings.float8_all_gather = true;
    change(settings);
    const Trained trained = train(model, settings);
    CHECK(trained.losses == expected.losses);
    CHECK(trained.gradients == expected.gradients);
  };
  const auto own = [](Settings& s) {
    s.all_gather = s.reduce_scatter = Transport::low_contention;
    s.reduce_scatter_input = ReduceScatterInput::gradients;
  };
  check_alike("NCCL, resharded", [](Settings&) {});
  check_alike("kept", [](Settings& s) { s.reshard_after_forward = {Reshard::Kind::never, 0}; });
  check_alike("own collectives", own);
  check_alike("parameter-contiguous", [&](Settings& s) {
    own(s);
    s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  });
  for (const OptimizerOverlap overlap : {OptimizerOverlap::forward, OptimizerOverlap::backward})
    check_alike("optimizer on a stream of its own", [&](Settings& s) {
      own(s);
      s.optimizer_overlap = overlap;
      s.fully_shard_embedding_and_head = true;
    });
  check_alike("two blocks a unit", [](Settings& s) { s.units_per_group = 2; });
  Settings recomputed = float8_on_four_ranks();
  recomputed.accumulate = 2;
  recomputed.checkpoint = Checkpoint::blocks;
  const Trained cast = train(model, recomputed);
  recomputed.float8_all_gather = true;
  CHECK(train(model, recomputed).losses == cast.losses);
}

// Shards of which some are empty or end before their place does.
TEST_CASE("float8 weights that do not divide by the ranks are gathered whole", "[host]") {
  ModelConfig model = small_float8_llama();
  Settings settings = float8_on_four_ranks();
  settings.gpus = 3;
  const Trained expected = train(model, settings);
  settings.float8_all_gather = true;
  CHECK(train(model, settings).losses == expected.losses);
  settings.gpus = 6;
  settings.replicate = 2;
  const Trained replicated = train(model, settings);
  settings.float8_all_gather = false;
  CHECK(train(model, settings).losses == replicated.losses);
}

void check_launches(const ModelConfig& model, const Settings& settings, const Trained& trained) {
  CHECK(worst_update(trained, settings.optimizer != Optimizer::sgd) < 1e-5);
  CHECK(trained.optimizer.size() >= (model.layers == 60 ? 2 : 1));
  REQUIRE(trained.kernels.size() > trained.optimizer.size());
  const auto last = trained.kernels.end() - static_cast<std::ptrdiff_t>(trained.optimizer.size());
  CHECK(std::equal(last, trained.kernels.end(), trained.optimizer.begin()));
}

TEST_CASE("every optimizer does torch.optim's step, in the launches that a plan prices", "[host]") {
  ModelConfig many = small_mlp();  // more parameters than any launch's lists
  many.dim = many.ffn = 6;
  many.layers = 60;
  for (const ModelConfig& model : {small_mlp(), many, small_llama()})
    for (const Optimizer optimizer : {Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single, Optimizer::sgd}) {
      INFO(static_cast<int>(optimizer));
      Settings settings = four_ranks();
      settings.optimizer = optimizer;
      check_launches(model, settings, train(model, settings));
      if (optimizer != Optimizer::adam_fused && optimizer != Optimizer::sgd) continue;
      settings.param_dtype = DType::bfloat16;
      settings.all_gather = Transport::low_contention;
      settings.all_gather_input = AllGatherInput::optimizer;
      check_launches(model, settings, train(model, settings));
    }
}

/// Leaves the optimizer so much memory beyond what is held when it begins.
class Pressure final : public ValueObserver {
 public:
  Pressure(HostMemory& memory, Bytes left) : memory_(memory), left_(left) {}
  void loss(std::int32_t, Address) override {}
  void gradients(std::int32_t, std::span<const ShardedGradient>) override {
    memory_.limit(memory_.held() + left_);
    freed_before_ = memory_.freed();
  }
  [[nodiscard]] std::uint64_t freed() const { return memory_.freed() - freed_before_; }

 private:
  HostMemory& memory_;
  Bytes left_;
  std::uint64_t freed_before_ = 0;
};

TEST_CASE("short of memory, the optimizer's launches still work on memory that is there", "[host]") {
  ModelConfig model = small_transformer();  // the second parameter does not fit into what the first one left
  model.dim = 64;
  model.head_dim = 16;
  model.heads = model.kv_heads = 4;
  model.vocab = 45'000;
  model.positions = 55'000;
  model.layers = 1;
  model.default_batch = 1;
  model.default_seq = 2;
  Settings settings;
  settings.gpus = 1;
  settings.optimizer = Optimizer::adam_single;
  const auto workload = generate(model, settings, HostCosts{}, 132, true);
  REQUIRE(workload);
  std::uint64_t given_back = 0;
  bool fits = true;
  constexpr Bytes kMax = 16 * kMiB;
  for (Bytes left = kMax; fits && left <= kMax; left -= 4 * kMiB) {
    HostWorld world;
    HostMemory memory;
    HostDevice device(world, 0, &memory);
    Pressure pressure(memory, left);
    Run ignored;
    StepRequest request;
    request.steps = 1;
    request.record = false;
    request.lowering = Lowering::foreshard;
    request.observer = &pressure;
    const auto outcome = run_steps(*workload, workload->settings, request, device, memory, ignored);
    REQUIRE(outcome);
    CHECK(device.dangling() == 0);
    fits = !outcome->out_of_memory;
    if (fits) given_back = pressure.freed();
  }
  CHECK_FALSE(fits);
  CHECK(given_back > 0);
}

TEST_CASE("accumulated microbatches average as one reduction would", "[host]") {
  Settings without = four_ranks();
  without.accumulate = 2;
  Settings with = without;
  with.accumulate_with_sync = true;
  CHECK(worst_difference(train(small_llama(), without), train(small_llama(), with)) < 1e-5);
}

TEST_CASE("mixed precision stays within bfloat16's rounding", "[host]") {
  const Trained wide = train(small_llama(), four_ranks());
  Settings mixed = four_ranks();
  mixed.param_dtype = DType::bfloat16;
  mixed.reduce_dtype = DType::float32;
  const Trained narrow = train(small_llama(), mixed);
  CHECK(worst_difference(wide, narrow) < 0.05);
  mixed.accumulate = 2;
  Settings accumulated = four_ranks();
  accumulated.accumulate = 2;
  CHECK(worst_difference(train(small_llama(), accumulated), train(small_llama(), mixed)) < 0.05);
}

TEST_CASE("sums of gradients sent in bfloat16 are those of gradients sent in float32", "[host]") {
  Settings sent_wide = four_ranks();
  sent_wide.param_dtype = DType::bfloat16;
  sent_wide.reduce_dtype = DType::float32;
  for (const std::uint32_t microbatches : {1U, 2U}) {
    sent_wide.accumulate = microbatches;
    Settings sent_narrow = sent_wide;
    sent_narrow.reduce_scatter = Transport::pull_reduce;
    CHECK(worst_difference(train(small_llama(), sent_wide), train(small_llama(), sent_narrow)) == 0);
    sent_wide.accumulate_with_sync = sent_narrow.accumulate_with_sync = true;
    CHECK(worst_difference(train(small_llama(), sent_wide), train(small_llama(), sent_narrow)) == 0);
  }
}

TEST_CASE("a Llama starts at the loss of an even guess", "[host]") {
  const Trained llama = train(small_llama(), four_ranks());
  for (const auto& losses : llama.losses) CHECK(losses.front() == Approx(std::log(37.0)).epsilon(0.05));
}

TEST_CASE("a captured step and its replays compute what eager steps do, on each step's own data") {
  for (const ModelConfig& model : {small_mlp(), small_llama()})
    for (const bool keeps : {false, true}) {
      INFO(model.name);
      Settings settings = four_ranks();
      if (keeps) settings.reshard_after_forward = {Reshard::Kind::never, 0};
      const Trained eager = train(model, settings);
      settings.cuda_graph = CudaGraph{0, kBeforeCapture};
      const Trained graphed = train(model, settings);
      CHECK(graphed.losses == eager.losses);
      CHECK(graphed.gradients == eager.gradients);
      CHECK(graphed.parameters == eager.parameters);
    }
}

TEST_CASE("gradients that are kept and zeroed train as those that are freed, eager and in a graph", "[host]") {
  for (const ModelConfig& model : {small_mlp(), small_llama()})
    for (const std::uint32_t microbatches : {1U, 2U})
      for (const bool graph : {false, true}) {
        if (graph && microbatches > 1) continue;
        INFO(model.name << ", " << microbatches << " microbatches, " << (graph ? "graph" : "eager"));
        Settings settings = four_ranks();
        settings.accumulate = microbatches;
        settings.accumulate_with_sync = microbatches > 1;
        const Trained freed = train(model, settings);
        settings.set_to_none = false;
        if (graph) settings.cuda_graph = CudaGraph{0, kBeforeCapture};
        const Trained kept = train(model, settings);
        CHECK(kept.losses == freed.losses);
        CHECK(kept.gradients == freed.gradients);
        CHECK(kept.parameters == freed.parameters);
        const auto zeroes = [](const Trained& t) {
          return std::count_if(t.kernels.begin(), t.kernels.end(),
                               [](const auto& kernel) { return kernel.first == "aten::zero_"; });
        };
        CHECK(zeroes(kept) > zeroes(freed));
      }
}
