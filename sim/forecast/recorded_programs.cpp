// ProgramSource of a recording: recorded lengths as they were, others from them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/check.hpp"
#include "sim/forecast/length_programs.hpp"
#include "sim/forecast/size_fit.hpp"

namespace foreshard::sim {
namespace {

/// The recorded lengths whose steps ask and free in one order.
struct Order {
  std::vector<RecordedSizes> recorded;  // ascending by length
  std::shared_ptr<const ProgramShape> shape;
  SizeFit fit;
  bool derived = false;  // lengths that were not recorded take its order and sizes
};

/// For each slot of a first step the slot of a later step of its length that is the same request; none of what the
/// first one alone asks for (optimizer states, workspaces). Empty: the later step is not contained in it.
std::vector<std::optional<std::uint32_t>> shared_slots(const AllocationProgram& first, const AllocationProgram& later) {
  const auto streams_of = [](const AllocationProgram& program) {
    std::vector<std::uint8_t> streams;  // by slot
    for (const AllocationOp& op : program.shape->ops)
      if (op.kind == AllocationOp::Kind::malloc) streams.push_back(op.stream);
    return streams;
  };
  const auto first_streams = streams_of(first);
  const auto later_streams = streams_of(later);
  std::vector<std::optional<std::uint32_t>> shared(first.sizes.size());
  std::uint32_t next = 0;
  for (std::size_t slot = 0; slot < shared.size() && next < later.sizes.size(); ++slot) {
    if (first.sizes[slot] != later.sizes[next] || first_streams[slot] != later_streams[next] ||
        first.shape->categories[slot] != later.shape->categories[next])
      continue;
    shared[slot] = next++;
  }
  if (next < later.sizes.size()) shared.clear();
  return shared;
}

class RecordedPrograms final : public ProgramSource {
 public:
  RecordedPrograms(DerivedSteps steps, std::vector<std::uint32_t> lengths, BetweenOrders between)
      : steps_(std::move(steps)), lengths_(std::move(lengths)), between_(between) {
    for (std::size_t i = 1; i < lengths_.size(); ++i) {
      if (lengths_[i] > 0)
        add(lengths_[i], steps_.steps[i]);
      else
        ++unknown_;
    }
    for (auto& [length, order] : order_of_) {
      Order& one = orders_[order];
      one.recorded.push_back({length, &programs_.at(length).later.sizes});  // ascending: order_of_ is
    }
    for (Order& order : orders_) order.fit = fit_sizes(order.recorded, order.shape->categories);
    if (lengths_.front() == 0) infer_first_length();
    if (lengths_.front() > 0) find_first();
  }

  using ProgramSource::prepare;
  Result<void> prepare(const std::vector<std::uint32_t>& lengths, unsigned,
                       const std::function<void(std::size_t, std::size_t)>&) override {
    for (const std::uint32_t length : lengths) {
      if (programs_.contains(length)) continue;
      const auto place = order_at(length);
      FORESHARD_TRY(place);
      Order& order = orders_[*place];
      order.derived = true;
      LengthPrograms made;
      made.later = {order.shape, sizes_at(length, order.recorded, order.fit)};
      made.first = first_at(length, *place, made.later.sizes);
      programs_.emplace(length, std::move(made));
    }
    return {};
  }
  [[nodiscard]] const LengthPrograms& at(std::uint32_t length) const override { return programs_.at(length); }
  [[nodiscard]] const ProcessStart& start() const override { return steps_.start; }
  [[nodiscard]] const AllocationProgram* recorded_first() const override { return &steps_.steps.front(); }
  [[nodiscard]] std::vector<std::string> notes() const override;
  [[nodiscard]] std::vector<std::string> doubts() const override;

 private:
  void add(std::uint32_t length, AllocationProgram& program) {
    if (programs_.contains(length)) {
      if (programs_.at(length).later.sizes != program.sizes) ++unlike_;
      return;
    }
    std::size_t place = 0;
    while (place < orders_.size() && !orders_[place].shape->same_order(*program.shape)) ++place;
    if (place == orders_.size()) orders_.push_back({{}, program.shape, {}});
    order_of_.emplace(length, place);
    LengthPrograms made;
    made.later = {orders_[place].shape, std::move(program.sizes)};
    programs_.emplace(length, std::move(made));
  }

  /// The recording does not show it: that of the one recorded length whose later step is contained in it, request by
  /// request. Where several are, or none is, it stays unknown, and the first step runs before the list's.
  void infer_first_length() {
    std::vector<std::uint32_t> of;
    for (const auto& [length, programs] : programs_)
      if (!shared_slots(steps_.steps.front(), programs.later).empty()) of.push_back(length);
    first_ = of.size() == 1 ? First::inferred : First::unknown;
    if (first_ == First::inferred) lengths_.front() = of.front();
  }

  /// What the recorded first step shares with later ones, and the first step at each recorded length.
  void find_first() {
    const std::uint32_t length = lengths_.front();
    const auto recorded = order_of_.find(length);
    const auto above = order_of_.lower_bound(length);
    const bool between_orders = recorded == order_of_.end() && above != order_of_.begin() && above != order_of_.end() &&
                                above->second != std::prev(above)->second;
    if (between_orders) return;
    first_order_ = above == order_of_.end() ? std::prev(above)->second : above->second;
    const Order& order = orders_[*first_order_];
    const AllocationProgram later{order.shape, recorded == order_of_.end() ? sizes_at(length, order.recorded, order.fit)
                                                                           : programs_.at(length).later.sizes};
    shared_ = shared_slots(steps_.steps.front(), later);
    for (auto& [recorded_length, programs] : programs_)
      programs.first = first_at(recorded_length, order_of_.at(recorded_length), programs.later.sizes);
  }
  /// None where the order is another one than the first step's.
  [[nodiscard]] std::optional<AllocationProgram> first_at(std::uint32_t length, std::size_t order,
                                                          const std::vector<Bytes>& later) const {
    AllocationProgram first = steps_.steps.front();
    if (length == lengths_.front()) return first;
    if (first_order_ != order || shared_.empty()) return std::nullopt;
    for (std::size_t slot = 0; slot < shared_.size(); ++slot)
      if (shared_[slot]) first.sizes[slot] = later[*shared_[slot]];
    return first;
  }

  /// The order of the recorded lengths around `length`.
  [[nodiscard]] Result<std::size_t> order_at(std::uint32_t length) {
    const auto above = order_of_.lower_bound(length);
    if (above == order_of_.end()) return note_beyond(length, std::prev(above)->second);
    if (above == order_of_.begin()) return note_beyond(length, above->second);
    const auto below = std::prev(above);
    if (below->second == above->second) return above->second;
    if (between_ == BetweenOrders::refuse)
      return fail(ErrorKind::usage,
                  fmt::format("length {} lies between {} and {}, whose recorded steps ask for memory in different "
                              "orders: where between them the order changes is not known",
                              length, below->first, above->first),
                  "--lengths", "record that length, forecast the model, or say --between lower (or upper)");
    guessed_.push_back(length);
    return between_ == BetweenOrders::lower ? below->second : above->second;
  }

  std::size_t note_beyond(std::uint32_t length, std::size_t order) {
    beyond_.push_back(length);
    return order;
  }

  enum class First : std::uint8_t { recorded, inferred, unknown };

  DerivedSteps steps_;
  std::vector<std::uint32_t> lengths_;  // by recorded step; 0: the recording does not show it
  First first_ = First::recorded;       // where the first one's is from
  std::size_t unknown_ = 0;             // later steps without one, which give no length its program
  BetweenOrders between_;
  std::map<std::uint32_t, LengthPrograms> programs_;
  std::map<std::uint32_t, std::size_t> order_of_;  // of recorded lengths, the place in orders_
  std::vector<Order> orders_;
  std::optional<std::size_t> first_order_;            // the recorded first step's; none: not known, …
  std::vector<std::optional<std::uint32_t>> shared_;  // … and shared_slots() of it
  std::vector<std::uint32_t> guessed_;                // lengths between two orders, and …
  std::vector<std::uint32_t> beyond_;                 // … those shorter or longer than all recorded ones
  std::size_t unlike_ = 0;                            // recorded steps of one length that ask for other sizes
};

/// "256, 320, 384 and 13 more"
std::string listed(const std::vector<std::uint32_t>& lengths) {
  constexpr std::size_t kListed = 8;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(lengths.size(), kListed));
  std::string text = fmt::format("{}", fmt::join(lengths.begin(), lengths.begin() + shown, ", "));
  if (lengths.size() > kListed) text += fmt::format(" and {} more", lengths.size() - kListed);
  return text;
}

std::string counted(std::size_t steps) {
  return fmt::format("{} recorded step{}", steps, steps == 1 ? "" : "s");
}

std::vector<std::string> RecordedPrograms::notes() const {
  std::vector<std::string> notes;
  if (first_ == First::inferred)
    notes.push_back(
        fmt::format("the recording does not show the length of its first step: it makes the requests of one of length "
                    "{}, and is taken as that",
                    lengths_.front()));
  if (first_ == First::unknown)
    notes.emplace_back(
        "the recording does not show the length of its first step, which no recorded length's requests are those of: "
        "it runs before the steps of the list");
  if (unknown_ > 0)
    notes.push_back(fmt::format("{} whose length the recording does not show {} left out", counted(unknown_),
                                unknown_ == 1 ? "is" : "are"));
  if (unlike_ > 0)
    notes.push_back(
        fmt::format("{} recorded steps ask for other sizes than an earlier one of their length, which is "
                    "taken",
                    unlike_));
  for (const Order& order : orders_) {
    const SizeFit& fit = order.fit;
    using Kind = SizeFit::Kind;
    if (!order.derived || order.recorded.size() == 1) continue;  // one is a doubt
    std::string text = fmt::format(
        "of {} requests of a step {} are as large at each of the {} recorded lengths ({} to "
        "{}), {} lie on a line through them",
        fit.kinds.size(), fit.count(Kind::constant), order.recorded.size(), order.recorded.front().length,
        order.recorded.back().length, fit.count(Kind::linear));
    if (fit.count(Kind::quadratic) > 0) text += fmt::format(", {} on a parabola", fit.count(Kind::quadratic));
    if (fit.count(Kind::interpolated) > 0)
      text += fmt::format(", {} on neither and are interpolated", fit.count(Kind::interpolated));
    notes.push_back(std::move(text));
  }
  return notes;
}

std::vector<std::string> RecordedPrograms::doubts() const {
  std::vector<std::string> doubts;
  for (const Order& order : orders_)
    if (order.derived && order.recorded.size() == 1)
      doubts.push_back(fmt::format(
          "one recorded length, {}: an inference, not a measurement, takes {} of {} requests as proportional "
          "to it",
          order.recorded.front().length, order.fit.count(SizeFit::Kind::inferred), order.fit.kinds.size()));
  for (const Order& order : orders_)
    if (order.derived && order.recorded.size() == 2)
      doubts.push_back(
          fmt::format("sizes at other lengths are taken to lie on the line through the two recorded ones, {} "
                      "and {}: no third length tests it",
                      order.recorded.front().length, order.recorded.back().length));
  if (!beyond_.empty())
    doubts.push_back(
        fmt::format("lengths shorter or longer than all recorded ones behind the first step: {}", listed(beyond_)));
  if (!guessed_.empty())
    doubts.push_back(fmt::format("lengths between recorded ones of different orders are taken as the {} one's: {}",
                                 between_ == BetweenOrders::lower ? "shorter" : "longer", listed(guessed_)));
  return doubts;
}

/// By recorded step; 0 where the recording does not show it, but not of all behind the first.
Result<std::vector<std::uint32_t>> lengths_of(const Workload& workload, const Settings& settings) {
  std::vector<std::uint32_t> lengths;
  for (const RecordedStep& step : workload.recorded) lengths.push_back(step.seq);
  if (lengths.empty()) lengths.assign(2, settings.seq.value_or(0));
  if (lengths.size() < 2)
    return fail(ErrorKind::usage, "one recorded step is the first one, which is like no other", {},
                "record at least two steps");
  if (std::all_of(lengths.begin() + 1, lengths.end(), [](std::uint32_t length) { return length == 0; }))
    return fail(ErrorKind::usage, "the recording shows the sequence length of no step behind its first", {},
                "import it with an about file whose \"batch\" and \"seq\" are those of one of its steps (import "
                "--write-about FILE writes one to be completed), or with a profiler trace that has shapes "
                "(record_shapes=True)");
  std::uint32_t batch = 0;
  for (const RecordedStep& step : workload.recorded) {
    if (step.seq == 0) continue;
    if (batch > 0 && step.batch != batch)
      return fail(ErrorKind::usage, "the recorded steps differ in batch, too: sizes do not follow the length alone");
    batch = step.batch;
  }
  return lengths;
}

}  // namespace

Result<std::unique_ptr<ProgramSource>> recorded_programs(const Workload& workload, const Settings& settings,
                                                         BetweenOrders between) {
  auto lengths = lengths_of(workload, settings);
  FORESHARD_TRY(lengths);
  auto steps = derive_steps(workload, settings, static_cast<std::int32_t>(lengths->size()));
  FORESHARD_TRY(steps);
  const std::size_t carried = steps->steps.back().shape->carried.size();
  for (const AllocationProgram& program : steps->steps)
    if (program.shape->carried.size() != carried)
      return fail(ErrorKind::usage, fmt::format("recorded steps leave {} and {} blocks to the next one",
                                                program.shape->carried.size(), carried));
  return std::make_unique<RecordedPrograms>(std::move(*steps), std::move(*lengths), between);
}

}  // namespace foreshard::sim
