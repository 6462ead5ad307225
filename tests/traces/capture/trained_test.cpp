// Which parameters a recording trains, read off its first reductions.
#include "traces/capture/trained.hpp"

#include "core/settings/settings.hpp"
#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

Parameter weight(std::string name, std::int64_t rows) {
  return {std::move(name), {rows, 4}, DType::float32};
}

/// The root and two blocks, sharded over two ranks or one, sent and summed in float32.
struct Recording {
  std::vector<Unit> units{{"", {weight("tok", 64), weight("norm", 2), weight("head", 64)}},
                          {"layers.0", {weight("0.base", 32), weight("0.a", 8), weight("0.b", 16)}},
                          {"layers.1", {weight("1.base", 32), weight("1.a", 8), weight("1.b", 16)}}};
  std::vector<CaptureEvent> events;
  std::vector<Range> ranges;
  std::uint32_t ranks = 2;

  void event(bool allocates, Bytes size, std::uint32_t partner = CaptureEvent::kNone) {
    const Nanoseconds time{static_cast<std::int64_t>(events.size()) * 1000};
    events.push_back({allocates, 0, size, 0, time, partner, false});
  }
  /// A reduction of gradients of these sizes, in order, as foreach_reduce makes it; each is padded already.
  void reduce(std::string_view range, std::vector<Bytes> gradients) {
    const Nanoseconds start{static_cast<std::int64_t>(events.size()) * 1000};
    Bytes input = 0;
    for (const Bytes bytes : gradients) input += bytes;
    event(false, 4096);  // the last reduction's input
    event(true, input);
    event(true, 512);
    event(false, 512, static_cast<std::uint32_t>(events.size() - 1));
    if (ranks == 1) event(false, gradients.back());
    for (std::size_t i = gradients.size() - 1; i-- > 0;) event(false, gradients[i]);
    event(true, input / ranks);
    if (ranks > 1) event(false, gradients.back());
    ranges.push_back({range, start, Nanoseconds{static_cast<std::int64_t>(events.size()) * 1000}});
  }
  [[nodiscard]] Trained find() const {
    Settings settings;
    settings.gpus = ranks;
    return find_trained(events, ranges, units, plan_units(settings, units, 132).value(), fsdp_rules(settings.pytorch));
  }
};

constexpr Bytes kRow = 16;

TEST_CASE("every gradient is reduced: nothing is frozen") {
  Recording r;
  r.reduce("FSDP::post_backward_reduce (layers.1)", {32 * kRow, 8 * kRow, 16 * kRow});
  r.reduce("FSDP::post_backward_reduce (layers.0)", {32 * kRow, 8 * kRow, 16 * kRow});
  r.reduce("FSDP::post_backward_reduce", {64 * kRow, 2 * kRow, 64 * kRow});
  const Trained trained = r.find();
  CHECK(trained.parameters == std::vector<bool>(9, true));
  CHECK((trained.frozen == 0 && trained.alike == 0));
}

TEST_CASE("LoRA: adapters are trained, their bases and the root are not") {
  Recording r;
  r.reduce("FSDP::post_backward_reduce (layers.1)", {8 * kRow, 16 * kRow});
  r.reduce("FSDP::post_backward_reduce (layers.0)", {8 * kRow, 16 * kRow});
  const Trained trained = r.find();
  CHECK(trained.parameters == std::vector<bool>{false, false, false, false, true, true, false, true, true});
  CHECK((trained.frozen == 5 && trained.alike == 0));
}

TEST_CASE("over one rank every gradient is freed before the output is allocated") {
  Recording r;
  r.ranks = 1;
  r.reduce("FSDP::post_backward_reduce (layers.1)", {8 * kRow, 16 * kRow});
  r.reduce("FSDP::post_backward_reduce (layers.0)", {32 * kRow, 16 * kRow});
  const Trained trained = r.find();
  CHECK(trained.parameters == std::vector<bool>{false, false, false, true, false, true, false, true, true});
  CHECK((trained.frozen == 5 && trained.alike == 0));
}

TEST_CASE("trained parameters of several sizes are found among frozen ones") {
  Recording r;
  r.units[1].parameters.push_back(weight("0.c", 4));
  r.reduce("FSDP::post_backward_reduce (layers.0)", {8 * kRow, 16 * kRow, 4 * kRow});
  const Trained trained = r.find();
  CHECK(std::vector<bool>(trained.parameters.begin() + 3, trained.parameters.begin() + 7) ==
        std::vector<bool>{false, true, true, true});
}

TEST_CASE("of equal parameters the last is taken for the trained one, and counted") {
  Recording r;
  r.reduce("FSDP::post_backward_reduce (layers.1)", {32 * kRow, 8 * kRow, 16 * kRow});
  r.reduce("FSDP::post_backward_reduce", {2 * kRow, 64 * kRow});
  const Trained trained = r.find();
  CHECK(trained.parameters == std::vector<bool>{false, true, true, false, false, false, true, true, true});
  CHECK((trained.frozen == 4 && trained.alike == 1));
}

TEST_CASE("sizes that fit no choice leave the unit as it was given") {
  Recording r;
  r.reduce("FSDP::post_backward_reduce (layers.1)", {32 * kRow, 9 * kRow});
  const Trained trained = r.find();
  CHECK(std::vector<bool>(trained.parameters.begin() + 6, trained.parameters.end()) == std::vector<bool>(3, true));
}

TEST_CASE("a recording without a reduction says nothing about frozen parameters") {
  CHECK(Recording{}.find().parameters == std::vector<bool>(9, true));
}

}  // namespace
}  // namespace foreshard::traces
