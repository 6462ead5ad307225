// A root and a few equal blocks under settings that a test picks, with the hooks of a step called in order.
#pragma once

#include <string>
#include <vector>

#include "core/fsdp/fully_shard.hpp"
#include "tests/catch.hpp"
#include "tests/core/fsdp/logging_backend.hpp"

namespace foreshard::test {

/// Root with one parameter of 8 × 4, `blocks` units of two parameters (16 × 4 and 8), all float32.
inline std::vector<Unit> small_units(std::uint32_t blocks) {
  std::vector<Unit> units{{"", {{"norm", {8, 4}, DType::float32}}}};
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    units.push_back({name, {{name + ".a", {16, 4}, DType::float32}, {name + ".b", {8}, DType::float32}}});
  }
  return units;
}

inline Settings four_gpus() {
  Settings settings;
  settings.gpus = 4;
  return settings;
}

struct Bench {
  Bench(const Settings& wanted, std::uint32_t blocks) : Bench(wanted, small_units(blocks)) {}
  Bench(const Settings& wanted, std::vector<Unit> wanted_units)
      : settings(wanted),
        units(std::move(wanted_units)),
        plans(plan_units(settings, units, 132).value()),
        backend(plans),
        fsdp(settings, plans, backend) {}

  [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(units.size()) - 1; }

  void forward() {
    fsdp.pre_forward(kRootUnit);
    for (std::uint32_t i = 1; i <= blocks(); ++i) {
      fsdp.pre_forward(UnitId{i});
      fsdp.post_forward(UnitId{i});
    }
    fsdp.post_forward(kRootUnit);
  }
  /// Backward through every block; the root's gradients come with the final callback.
  void backward() {
    fsdp.pre_backward(kRootUnit);
    for (std::uint32_t i = blocks(); i >= 1; --i) backward_of(UnitId{i});
    backend.make_gradients(plans[0]);
    fsdp.backward_final();
  }
  void backward_of(UnitId unit) {
    fsdp.pre_backward(unit);
    backend.make_gradients(plans[unit.value]);
    fsdp.post_backward(unit);
  }
  void zero_grad() {
    std::vector<UnitId> order;
    for (std::uint32_t i = 1; i <= blocks(); ++i) order.push_back(UnitId{i});
    order.push_back(kRootUnit);
    fsdp.zero_grad(order);
  }

  /// The memory lines since the last call.
  std::vector<std::string> take() {
    std::vector<std::string> lines = backend.memory();
    backend.clear();
    return lines;
  }
  std::vector<std::string> take_all() {
    std::vector<std::string> lines = backend.all();
    backend.clear();
    return lines;
  }

  Settings settings;
  std::vector<Unit> units;
  std::vector<UnitPlan> plans;
  LoggingBackend backend;
  FullyShard fsdp;
};

/// Lines in short: U effective unshard (its all-gather is issued), R reshard (its first unsharded parameter is freed),
/// PB a post-backward that reduced (its RS input), each with the unit's name in the notation of fsdp2 semantics 4.7.
inline std::string short_form(const std::vector<std::string>& lines) {
  std::string out;
  const auto unit_of = [](const std::string& line, std::size_t at) {
    const std::string number = line.substr(at, line.find_first_of(" .", at) - at);
    return number == "0" ? std::string("root") : std::to_string(std::stoi(number) - 1);
  };
  const auto add = [&](std::string_view what, const std::string& unit) {
    if (!out.empty()) out += ' ';
    out += unit == "root" ? fmt::format("{}(root)", what) : fmt::format("{}{}", what, unit);
  };
  for (const std::string& line : lines) {
    if (line.starts_with("a AG ")) add("U", unit_of(line, 5));
    if (line.starts_with("f U ") && line.ends_with(".0")) add("R", unit_of(line, 4));
    if (line.starts_with("a RI ")) add("PB", unit_of(line, 5));
  }
  return out;
}

}  // namespace foreshard::test
