#include "core/explain_time/critical_path.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "core/timeline/places.hpp"

namespace foreshard {
namespace {

constexpr Nanoseconds kShortest{20'000};
constexpr std::size_t kMaxPattern = 8;
constexpr double kAlike = 0.25;  // of a repeat's time, against the first of its pattern

/// "layers.12.mlp" as "layers.#.mlp" and 12; the first number of several.
struct Numbered {
  std::string family;
  std::optional<std::int64_t> number;
};

Numbered numbered(const std::string& unit) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(unit.begin(), unit.end(), digit);
  const auto last = std::find_if_not(first, unit.end(), digit);
  std::int64_t number = 0;
  const auto parsed =
      std::from_chars(unit.data() + (first - unit.begin()), unit.data() + (last - unit.begin()), number);
  if (first == last || parsed.ec != std::errc()) return {unit, std::nullopt};
  return {std::string(unit.begin(), first) + '#' + std::string(last, unit.end()), number};
}

bool alike(Nanoseconds a, Nanoseconds b) {
  const auto [least, most] = std::minmax(a.count, b.count);
  return most - least <= std::max(kShortest.count, static_cast<std::int64_t>(kAlike * static_cast<double>(most)));
}

/// The stretches, not folded.
class Stretches {
 public:
  Stretches(const Run& run, const TimeExplanation& e)
      : run_(run), e_(e), places_(run, e.recording), short_(std::max(kShortest, e.length().scaled(kShortWait))) {}

  std::vector<PathStretch> find() {
    std::size_t gap = 0;
    Nanoseconds at = e_.begin;
    const auto gaps_until = [&](Nanoseconds time) {
      for (; gap < e_.gaps.size() && e_.gaps[gap].start < time; ++gap) {
        wait(e_.gaps[gap]);
        at = e_.gaps[gap].end;
      }
    };
    for (const std::size_t op : compute_ops()) {
      const DeviceOpRecord& record = run_.device_ops[op];
      gaps_until(record.start);
      const Nanoseconds end = std::min(record.end, e_.end);
      if (end > at) work(record, at, end);
      at = std::max(at, end);
    }
    gaps_until(e_.end);
    return without_short();
  }

 private:
  [[nodiscard]] std::vector<std::size_t> compute_ops() const {
    std::vector<std::size_t> ops;
    for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
      const DeviceOpRecord& op = run_.device_ops[i];
      if (op.stream == kComputeStream && op.kind != DeviceOpRecord::Kind::collective && op.start < e_.end &&
          op.end > std::max(op.start, e_.begin))
        ops.push_back(i);
    }
    std::stable_sort(ops.begin(), ops.end(), [this](std::size_t a, std::size_t b) {
      return run_.device_ops[a].start < run_.device_ops[b].start;
    });
    return ops;
  }

  void work(const DeviceOpRecord& op, Nanoseconds from, Nanoseconds to) {
    const std::string& phase = places_.phase(op);
    const std::string unit = places_.unit(op);
    if (out_.empty() || !out_.back().computes || out_.back().phase != phase || out_.back().unit != unit)
      push({true, {}, phase, unit, unit, from, {}, {}, kNoDeviceOp});
    out_.back().time += to - from;
  }

  /// Short waits before the first stretch are its own.
  void push(PathStretch stretch) {
    stretch.start -= leading_;
    stretch.time += leading_;
    if (stretch.computes) stretch.idle += leading_;
    leading_ = {};
    out_.push_back(std::move(stretch));
  }

  void wait(const IdleGap& gap) {
    for (std::size_t i = gap.first_part; i < gap.first_part + gap.parts; ++i) {
      const IdlePart& part = e_.parts[i];
      const bool last = &gap == &e_.gaps.back() && i + 1 == gap.first_part + gap.parts;
      if (part.length() < short_ && out_.empty() && !last) {
        leading_ += part.length();
      } else if (part.length() < short_ && !out_.empty() && out_.back().computes) {
        out_.back().time += part.length();
        out_.back().idle += part.length();
      } else if (!out_.empty() && !out_.back().computes &&
                 (part.length() < short_ || (out_.back().cause == part.cause && out_.back().unit == part.unit))) {
        out_.back().time += part.length();
        if (part.length() > e_.parts[out_.back().part].length()) out_.back().part = i;
      } else {
        push({false, part.cause, gap.phase, part.unit, part.unit, part.start, part.length(), {}, i});
      }
    }
  }

  /// Short work joins what is before it, and what then stands side by side is one.
  std::vector<PathStretch> without_short() {
    std::vector<PathStretch> out;
    for (PathStretch& stretch : out_) {
      const bool joins =
          !out.empty() && out.back().computes && stretch.computes &&
          (stretch.time < short_ || (out.back().phase == stretch.phase && out.back().unit == stretch.unit));
      if (!joins) {
        out.push_back(std::move(stretch));
        continue;
      }
      out.back().time += stretch.time;
      out.back().idle += stretch.idle;
    }
    return out;
  }

  const Run& run_;
  const TimeExplanation& e_;
  Places places_;
  Nanoseconds short_;
  Nanoseconds leading_;  // a short wait before the first stretch
  std::vector<PathStretch> out_;
};

class Folding {
 public:
  explicit Folding(std::vector<PathStretch> stretches) : all_(std::move(stretches)) {
    for (const PathStretch& stretch : all_) names_.push_back(numbered(stretch.unit));
  }

  std::vector<PathRow> fold() {
    std::vector<PathRow> rows;
    for (std::size_t at = 0; at < all_.size();) {
      std::size_t length = 1, count = 1;
      for (std::size_t pattern = 1; pattern <= kMaxPattern; ++pattern) {
        const std::size_t times = repeats(at, pattern);
        if (times > 1 && (times - 1) * pattern > (count - 1) * length)
          std::tie(length, count) = std::pair(pattern, times);
      }
      rows.push_back(row(at, length, count));
      at += length * count;
    }
    return rows;
  }

 private:
  /// How often the pattern of `length` stretches from `at` comes, units counted on by one step.
  [[nodiscard]] std::size_t repeats(std::size_t at, std::size_t length) const {
    std::size_t count = 1;
    std::optional<std::int64_t> step;
    for (; at + (count + 1) * length <= all_.size(); ++count)
      for (std::size_t i = 0; i < length; ++i)
        if (!follows(at + i, at + (count - 1) * length + i, at + count * length + i, step)) return count;
    return count;
  }

  [[nodiscard]] bool follows(std::size_t first, std::size_t before, std::size_t next,
                             std::optional<std::int64_t>& step) const {
    const PathStretch& a = all_[first];
    const PathStretch& b = all_[next];
    if (a.computes != b.computes || a.phase != b.phase || (!a.computes && a.cause != b.cause)) return false;
    if (names_[first].family != names_[next].family || !alike(a.time, b.time)) return false;
    if (!names_[next].number) return all_[first].unit == all_[next].unit;
    const std::int64_t by = *names_[next].number - *names_[before].number;
    if (by == 0 || (step && by != *step)) return false;
    step = by;
    return true;
  }
  [[nodiscard]] PathRow row(std::size_t at, std::size_t length, std::size_t count) const {
    PathRow row{count, {}};
    for (std::size_t i = 0; i < length; ++i) {
      PathStretch sum = all_[at + i];
      for (std::size_t n = 1; n < count; ++n) {
        const PathStretch& next = all_[at + n * length + i];
        sum.time += next.time;
        sum.idle += next.idle;
        sum.last_unit = next.unit;
      }
      row.pattern.push_back(std::move(sum));
    }
    return row;
  }

  std::vector<PathStretch> all_;
  std::vector<Numbered> names_;
};

}  // namespace

std::vector<PathRow> critical_path(const Run& run, const TimeExplanation& explanation) {
  return Folding(Stretches(run, explanation).find()).fold();
}

}  // namespace foreshard
