#include "sim/forecast/forecast.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "sim/parallel/for_each.hpp"

namespace foreshard::sim {
namespace {

constexpr std::size_t kTellEvery = 64;  // steps between two words of progress
constexpr std::size_t kFirstWindow =
    64;  // steps whose programs are made before they run; each window is twice the last

/// One process, step after step.
class SeedRun {
 public:
  SeedRun(const ProgramSource& programs, const ForecastRequest& request, std::uint64_t seed)
      : programs_(programs), request_(request), process_(programs.start(), request.process.options) {
    out_.seed = seed;
    if (process_.out_of_memory()) fail_before_first(programs_.start().setup);
  }

  [[nodiscard]] bool ended() const { return out_.out_of_memory || next_ == request_.steps; }

  /// Up to `end`, or until it ends. `tell` may be null: others do.
  void run_until(std::size_t end, std::atomic<std::size_t>& done, const std::function<void(std::size_t)>* tell) {
    if (next_ == 0 && !ended() && !begins_with_first()) warm_up(*programs_.recorded_first());
    for (std::size_t told = next_; next_ < end && !out_.out_of_memory;) {
      run_step(next_++);
      if (next_ - told < kTellEvery && next_ < end && !out_.out_of_memory) continue;
      done += next_ - std::exchange(told, next_);
      if (tell != nullptr) (*tell)(0);
    }
    if (out_.out_of_memory) done += request_.steps - std::exchange(next_, request_.steps);
  }

  SeedForecast outcome() {
    out_.follows_recording = process_.follows_recording();
    out_.driver_allocations = process_.growth().size();
    out_.driver_frees = static_cast<std::size_t>(process_.driver_frees());
    out_.driver_time = process_.driver_time();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::uint32_t length(std::size_t step) const { return request_.lengths.at(out_.seed, step); }
  [[nodiscard]] bool begins_with_first() const { return programs_.at(length(0)).first.has_value(); }

  /// The recording's own first step, where no other is known: not one of the list's.
  void warm_up(const AllocationProgram& first) {
    out_.behind_recorded_first = true;
    if (process_.run(first))
      reserved_ = process_.use().peak_reserved;
    else
      fail_before_first(first);
  }

  void run_step(std::size_t step) {
    const LengthPrograms& programs = programs_.at(length(step));
    const AllocationProgram& program = step == 0 && !out_.behind_recorded_first ? *programs.first : programs.later;
    const std::size_t grown = process_.growth().size();
    const Nanoseconds called = process_.driver_time();
    const bool fits = process_.run(program);
    const StepUse use = process_.use();
    bool gives_back = use.released > 0 || use.retries > 0;
    if (!process_.retried_slots().empty()) add_retry(step, program, use, grown, process_.driver_time() - called);
    if (fits && empties_cache_behind(step)) gives_back |= process_.empty_cache();
    if (gives_back) ++out_.steps_giving_back;
    if (use.peak_reserved > reserved_) add_growth(step, program, use, grown);
    if (!fits) return fail_in(step, length(step), program);
    out_.steps.push_back(use);
  }

  [[nodiscard]] bool empties_cache_behind(std::size_t step) const {
    const std::uint32_t every = request_.process.empty_cache_every;
    return every > 0 && (step + 1) % every == 0;
  }

  void fail_in(std::size_t step, std::uint32_t of, const AllocationProgram& program) {
    out_.out_of_memory =
        FailedStep{step, of, false, name_of_failed(program), *process_.out_of_memory(), process_.use()};
  }

  void fail_before_first(const AllocationProgram& program) {
    out_.out_of_memory = FailedStep{0, 0, true, name_of_failed(program), *process_.out_of_memory(), process_.use()};
  }

  /// Setup may fail in what is older than its program.
  [[nodiscard]] std::string name_of_failed(const AllocationProgram& program) const {
    const std::vector<std::string>& names = program.shape->names;
    return process_.failed_slot() < names.size() ? names[process_.failed_slot()] : std::string("what is older");
  }

  void add_retry(std::size_t step, const AllocationProgram& program, const StepUse& use, std::size_t grown,
                 Nanoseconds driver) {
    const std::uint32_t slot = process_.retried_slots().front();
    const auto made = static_cast<std::int32_t>(process_.growth().size() - grown);
    const bool served = !process_.out_of_memory() || process_.failed_slot() != slot;
    out_.retries.push_back({step, length(step), use.retries, use.released, made, program.shape->names[slot],
                            program.sizes[slot], served, driver});
  }

  void add_growth(std::size_t step, const AllocationProgram& program, const StepUse& use, std::size_t grown) {
    reserved_ = use.peak_reserved;
    const auto& growth = process_.growth();
    GrowthStep one{step, length(step), growth.size() - grown, 0, use.peak_reserved, {}, 0, 0};
    for (std::size_t i = grown; i < growth.size(); ++i) {
      one.bytes += growth[i].bytes;
      if (growth[i].bytes <= one.largest_segment) continue;
      one.largest_segment = growth[i].bytes;
      one.largest_request = growth[i].requested;
      one.request = program.shape->names[growth[i].slot];
    }
    out_.growth.push_back(std::move(one));
  }

  const ProgramSource& programs_;
  const ForecastRequest& request_;
  AllocatorProcess process_;
  SeedForecast out_;
  std::size_t next_ = 0;  // step
  Bytes reserved_ = 0;    // the largest peak so far
};

/// Places in the request's list.
std::vector<std::size_t> seeds_of_part(const ForecastRequest& request) {
  std::vector<std::size_t> out;
  for (std::size_t i = request.part.number; i < request.seeds.size(); i += request.part.of) out.push_back(i);
  return out;
}

/// All seeds, some steps of each at a time, so that no program is made of a length that no process lives to.
class Windows {
 public:
  Windows(ProgramSource& programs, const ForecastRequest& request, std::vector<std::size_t> seeds,
          std::vector<std::uint32_t> lengths)
      : programs_(programs), request_(request), seeds_(std::move(seeds)), lengths_(std::move(lengths)) {}

  Result<std::vector<SeedForecast>> run() {
    if (lengths_.empty()) return std::vector<SeedForecast>(request_.seeds.size());
    // What is set up before the first step is of the longest length.
    FORESHARD_TRY(prepare(programs_.costs_to_prepare() ? std::vector{lengths_.back()} : lengths_));
    for (const std::size_t i : seeds_)
      runs_.push_back(std::make_unique<SeedRun>(programs_, request_, request_.seeds[i]));
    for (std::size_t from = 0, window = kFirstWindow; from < request_.steps; from += window, window *= 2) {
      const std::size_t end = std::min(from + window, request_.steps);
      FORESHARD_TRY(prepare(lengths_of(from, end)));
      run_until(end);
    }
    std::vector<SeedForecast> out(request_.seeds.size());
    for (std::size_t n = 0; n < seeds_.size(); ++n) out[seeds_[n]] = runs_[n]->outcome();
    return out;
  }

 private:
  /// Of the processes that still live.
  [[nodiscard]] std::vector<std::uint32_t> lengths_of(std::size_t from, std::size_t end) const {
    std::set<std::uint32_t> out;
    for (std::size_t n = 0; n < seeds_.size(); ++n)
      for (std::size_t step = from; step < end && !runs_[n]->ended(); ++step)
        out.insert(request_.lengths.at(request_.seeds[seeds_[n]], step));
    return {out.begin(), out.end()};
  }

  Result<void> prepare(const std::vector<std::uint32_t>& wanted) {
    std::vector<std::uint32_t> missing;
    std::set_difference(wanted.begin(), wanted.end(), made_.begin(), made_.end(), std::back_inserter(missing));
    const auto made = programs_.prepare(missing, request_.threads, [&](std::size_t done, std::size_t) {
      if (request_.on_made) request_.on_made(made_.size() + done, lengths_.size());
    });
    FORESHARD_TRY(made);
    made_.insert(missing.begin(), missing.end());
    return {};
  }

  void run_until(std::size_t end) {
    const std::size_t all = seeds_.size() * request_.steps;
    std::atomic<std::size_t>& done = request_.count != nullptr ? *request_.count : done_;
    const std::function<void(std::size_t)> tell = [&](std::size_t) {
      if (request_.on_progress) request_.on_progress(std::min(done.load(), all), all);
    };
    const bool alone = request_.threads <= 1 || seeds_.size() == 1;  // for_each() runs it on this thread
    for_each(
        runs_.size(), request_.threads, [&](std::size_t n) { runs_[n]->run_until(end, done, alone ? &tell : nullptr); },
        tell);
  }

  ProgramSource& programs_;
  const ForecastRequest& request_;
  std::vector<std::size_t> seeds_;      // places in the request's list
  std::vector<std::uint32_t> lengths_;  // of all their steps, ascending
  std::vector<std::unique_ptr<SeedRun>> runs_;
  std::set<std::uint32_t> made_;
  std::atomic<std::size_t> done_ = 0;
};

/// What is known, each with the seed of its place.
std::vector<SeedForecast> known_seeds(const ForecastRequest& request) {
  std::vector<SeedForecast> out = request.known;
  for (std::size_t i = 0; i < out.size(); ++i) out[i].seed = request.seeds[i];
  return out;
}

}  // namespace

Bytes SeedForecast::peak_reserved() const {
  Bytes peak = out_of_memory ? out_of_memory->use.peak_reserved : 0;
  for (const StepUse& use : steps) peak = std::max(peak, use.peak_reserved);
  return peak;
}

Bytes SeedForecast::peak_allocated() const {
  Bytes peak = out_of_memory ? out_of_memory->use.peak_allocated : 0;
  for (const StepUse& use : steps) peak = std::max(peak, use.peak_allocated);
  return peak;
}

std::int64_t SeedForecast::num_alloc_retries() const {
  std::int64_t count = 0;
  for (const RetryStep& step : retries) count += step.retries;
  return count;
}

std::optional<std::size_t> SeedForecast::first_retry() const {
  const auto first =
      std::find_if(retries.begin(), retries.end(), [](const RetryStep& step) { return step.retries > 0; });
  if (first == retries.end()) return std::nullopt;
  return first->step;
}

std::optional<std::size_t> SeedForecast::last_growth() const {
  if (growth.empty()) return std::nullopt;
  return growth.back().step;
}

Result<std::vector<SeedForecast>> run_forecast(ProgramSource& programs, const ForecastRequest& request) {
  const std::vector<std::size_t> seeds = seeds_of_part(request);
  std::set<std::uint32_t> lengths;
  for (const std::size_t i : seeds) {
    const auto distinct = request.lengths.distinct(request.seeds[i], request.steps);
    lengths.insert(distinct.begin(), distinct.end());
  }
  if (!request.known.empty()) {
    FORESHARD_TRY(programs.prepare({lengths.begin(), lengths.end()}, request.threads, request.on_made));
    return known_seeds(request);
  }
  return Windows(programs, request, seeds, {lengths.begin(), lengths.end()}).run();
}

}  // namespace foreshard::sim
