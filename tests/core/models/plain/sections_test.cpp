#include <algorithm>

#include "core/models/fsdp_section_costs.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/shard/layout.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("llama-1b on four GPUs launches as recorded: 18 times each of Adam's seven ops, 7 casts of the root") {
  Settings settings;
  settings.gpus = 4;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  const auto w = generate(*preset("llama-1b"), settings, {}, 132);
  REQUIRE(w);
  const auto section = [&](Section which, std::uint32_t unit) {
    return *std::find_if(w->sections.begin(), w->sections.end(),
                         [&](const SectionCost& c) { return c.section == which && c.unit == UnitId{unit}; });
  };
  CHECK(section(Section::optimizer, 0).items.size() == 126);
  const SectionCost gather = section(Section::all_gather, 0);
  CHECK(std::count_if(gather.items.begin(), gather.items.end(),
                      [](const SectionItem& i) { return i.role == SectionRole::cast; }) == 7);
  CHECK(section(Section::copy_out, 1).items.front().bytes == 30008);  // address tables as recorded
  CHECK(section(Section::reduce, 1).items.front().bytes == 238032);
  Bytes adam = 0;
  const SectionCost optimizer = section(Section::optimizer, 0);
  for (const SectionItem& item : optimizer.items) adam += item.bytes;
  CHECK(adam == 72 * std::uint64_t{374'620'672});  // 72 bytes an element of this rank's shards
}

TEST_CASE("gradients that are kept are zeroed one by one, or in launches of many where the optimizer is fused") {
  Settings settings;
  settings.gpus = 4;
  settings.set_to_none = false;
  const auto zeroing = [](const Settings& of) {
    const auto w = generate(*preset("llama-1b"), of, {}, 132);
    REQUIRE(w);
    std::pair<std::size_t, Bytes> out;
    for (const SectionCost& section : w->sections) {
      if (section.section != Section::zero_grad) continue;
      for (const SectionItem& item : section.items) out = {out.first + 1, out.second + item.bytes};
    }
    return out;
  };
  constexpr Bytes kShards = 4 * std::uint64_t{374'620'672};
  CHECK(zeroing(settings) == std::pair<std::size_t, Bytes>{147, kShards});
  settings.optimizer = Optimizer::adam_fused;
  CHECK(zeroing(settings).second == kShards);
  CHECK(zeroing(settings).first < 20);
  settings.set_to_none = true;
  CHECK(zeroing(settings).first == 0);
}

Settings four_gpus() {
  Settings settings;
  settings.gpus = 4;
  settings.param_dtype = DType::bfloat16;
  return settings;
}

Bytes optimizer_bytes(const ModelConfig& model, const Settings& settings) {
  const auto w = generate(model, settings, {}, 132);
  REQUIRE(w);
  Bytes sum = 0;
  for (const SectionCost& section : w->sections)
    if (section.section == Section::optimizer)
      for (const SectionItem& item : section.items) sum += item.bytes;
  return sum;
}

TEST_CASE("an optimizer moves bytes of the parameters' own dtype") {
  ModelConfig narrow = *preset("llama-tiny");
  narrow.dtype = DType::bfloat16;
  for (const Optimizer optimizer : {Optimizer::adam, Optimizer::adam_single, Optimizer::adam_fused, Optimizer::sgd}) {
    Settings settings = four_gpus();
    settings.optimizer = optimizer;
    const Bytes wide = optimizer_bytes(*preset("llama-tiny"), settings);
    CHECK(wide > 0);
    CHECK(2 * optimizer_bytes(narrow, settings) == wide);
  }
}

TEST_CASE("an optimizer's launches follow model.parameters(), not the units") {
  Settings settings = four_gpus();
  settings.optimizer = Optimizer::adam_single;  // launches parameter by parameter
  const auto w = generate(*preset("llama-tiny"), settings, {}, 132);
  REQUIRE(w);
  std::vector<Bytes> shards;
  for (const Unit& unit : w->units)
    for (const Parameter& p : unit.parameters) shards.push_back(local_shard_numel(p, {4, 0}) * itemsize(p.dtype));
  CHECK_FALSE(std::is_sorted(w->parameters_order.begin(), w->parameters_order.end(),
                             [](ParameterId a, ParameterId b) { return a.value < b.value; }));
  std::vector<Bytes> expected;
  for (const ParameterId id : w->parameters_order) expected.push_back(shards[id.value]);
  std::vector<Bytes> listed;  // the first launch of each parameter: exp_avg.lerp_, which moves three times its bytes
  for (const SectionCost& section : w->sections)
    if (section.section == Section::optimizer)
      for (std::size_t i = 0; i < section.items.size(); i += section.items.size() / expected.size())
        listed.push_back(section.items[i].bytes / 3);
  CHECK(listed == expected);
}

TEST_CASE("an offloaded optimizer takes the CPU's time by element, and the workload says what that rests on") {
  Settings settings = four_gpus();
  CHECK(generate(*preset("llama-tiny"), settings, {}, 132)->estimates.empty());
  settings.offload = true;
  const auto w = generate(*preset("llama-tiny"), settings, {}, 132);
  REQUIRE(w);
  REQUIRE(w->estimates.size() == 1);
  CHECK(w->estimates[0].find("its time is not in the machine profile") != std::string::npos);
  CHECK(optimizer_bytes(*preset("llama-tiny"), settings) == 0);
  HostCosts host;
  host.cpu_optimizer = {Nanoseconds::from_us(2000), Nanoseconds::from_us(300), 8, 3};
  const auto optimizer_time = [&](Optimizer optimizer) {
    settings.optimizer = optimizer;
    const auto timed = generate(*preset("llama-tiny"), settings, host, 132);
    REQUIRE(timed);
    CHECK(timed->estimates[0].find("with 8 threads a rank") != std::string::npos);
    for (const SectionCost& section : timed->sections)
      if (section.section == Section::optimizer) return section.host_after;
    return Nanoseconds{};
  };
  std::uint64_t elements = 0;
  for (const Unit& unit : w->units)
    for (const Parameter& parameter : unit.parameters) elements += local_shard_numel(parameter, {4, 0});
  CHECK(optimizer_time(Optimizer::adam).ms() == Approx(2 * static_cast<double>(elements) / 1e6));
  CHECK(optimizer_time(Optimizer::sgd).ms() == Approx(0.3 * static_cast<double>(elements) / 1e6));
}

TEST_CASE("models and steps whose counts could leave 64 bits are refused") {
  const auto what = [](const ModelConfig& model, std::uint32_t batch, std::uint32_t seq) {
    Settings settings = four_gpus();
    settings.batch = batch;
    settings.seq = seq;
    const auto w = generate(model, settings, {}, 132);
    return w ? std::string() : w.error().what;
  };
  const ModelConfig tiny = *preset("llama-tiny");
  CHECK(what(tiny, 4, 1U << 17).empty());
  CHECK(what(tiny, 0xffffffff, 0xffffffff).find("bytes") != std::string::npos);
  CHECK(what(tiny, 1U << 20, 1U << 16).find("bytes") != std::string::npos);
  CHECK(what(tiny, 1, 1U << 30).find("work") != std::string::npos);
  ModelConfig large = tiny;
  large.dim = large.head_dim = std::uint64_t{1} << 62;
  CHECK(what(large, 1, 1).find("parameters") != std::string::npos);
  ModelConfig deep = *preset("mlp", {16, 4'000'000'000});
  CHECK(what(deep, 1, 1).find("layers") != std::string::npos);
  CHECK_FALSE(preset("llama-8b", {std::uint64_t{1} << 60, 1}));
}

}  // namespace
}  // namespace foreshard
