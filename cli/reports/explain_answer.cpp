// The first lines of explain: whether the run fits, what is over-allocated, why, and what to do.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "accuracy/promises.hpp"
#include "cli/reports/explain_report.hpp"
#include "cli/reports/no_remedies.hpp"
#include "cli/reports/plan_answer.hpp"
#include "cli/reports/stored_trials.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"
#include "core/run/plan_results.hpp"

namespace foreshard::cli {
namespace {

/// Bytes of a peak that two plans of it are not told apart by.
std::int64_t noise(const sim::Remedies& remedies) {
  return static_cast<std::int64_t>(accuracy::kPromises.clocked * static_cast<double>(remedies.before.reserved));
}

std::int64_t gap(const MemoryPeaks& peaks) {
  return static_cast<std::int64_t>(peaks.reserved) - static_cast<std::int64_t>(peaks.allocated);
}

/// What it takes of the gap; of one that costs time half.
std::int64_t gap_worth(const sim::Remedies& remedies, const sim::Remedy& remedy) {
  const std::int64_t less = gap(remedies.before) - gap(remedy.peaks);
  return remedy.costs ? less / 2 : less;
}

/// Those that take of the gap more than the noise.
const sim::Remedy* best_of_gap(const sim::Remedies& remedies) {
  const sim::Remedy* best = nullptr;
  for (const sim::Remedy& remedy : remedies.useful) {
    if (!remedy.valid || gap(remedies.before) - gap(remedy.peaks) <= noise(remedies)) continue;
    if (best == nullptr || gap_worth(remedies, remedy) > gap_worth(remedies, *best)) best = &remedy;
  }
  return best;
}

/// Of those that are not valid the one that saves most, if that is more than the noise.
const sim::Remedy* largest_doubted(const sim::Remedies& remedies) {
  const sim::Remedy* largest = nullptr;
  for (const sim::Remedy& remedy : remedies.useful)
    if (!remedy.valid && remedy.saving > noise(remedies) && (largest == nullptr || remedy.saving > largest->saving))
      largest = &remedy;
  return largest;
}

/// Of the valid ones the one that saves most, if that is more than the noise; of more than `than`'s as well.
const sim::Remedy* saves_most(const sim::Remedies& remedies, const sim::Remedy* than = nullptr) {
  const std::int64_t least = noise(remedies) + (than != nullptr ? than->saving : 0);
  const sim::Remedy* most = nullptr;
  for (const sim::Remedy& remedy : remedies.useful)
    if (remedy.valid && remedy.saving > least && (most == nullptr || remedy.saving > most->saving)) most = &remedy;
  return most;
}

/// Of a run that retries in each step the change that ends that and is worth most, a valid one before others. Null: it
/// does not retry, or none ends it.
const sim::Remedy* ends_retries(const sim::Remedies& remedies) {
  if (!remedies.retries_each_step) return nullptr;
  const sim::Remedy* first = nullptr;
  for (const sim::Remedy& remedy : remedies.useful) {
    if (remedy.retries_each_step || remedy.may_run_out_of_memory) continue;
    if (remedy.valid) return &remedy;
    if (first == nullptr) first = &remedy;
  }
  return first;
}

/// " --checkpoint blocks would end the retries: 19.77 GiB reserved, 206.51 ms a step (188.19 ms with retries)."
std::string retries_words(const sim::Remedies& all, const sim::Remedy& remedy) {
  std::string text =
      fmt::format(" {} would end the retries: {} reserved", remedy.setting, format_bytes(remedy.peaks.reserved));
  if (all.has_time && remedy.has_time)
    text += fmt::format(", {} a step ({} with retries)", milliseconds(remedy.step_ms), milliseconds(all.step_ms));
  return text + (remedy.valid ? "." : fmt::format("; not valid: {}.", fmt::join(remedy.not_valid, "; ")));
}

/// As it is printed, beside what it is of: to the byte where it is printed in a smaller unit.
Bytes printed_gap(const MemoryParts& parts) {
  const Bytes gap = printed_difference(parts.reserved(), parts.allocated());
  return gap == parts.gap() ? gap : printed_difference(parts.reserved(), printed_memory_parts(parts).allocated);
}

/// "6.32 GiB (8.92 GiB less, the step 33.52 ms instead of 33.51 ms)." What is less is against the run's own settings,
/// simulated alike: where that is not the peak `shown`, it is said.
std::string saved_words(const sim::Remedies& all, const sim::Remedy& remedy, Bytes shown) {
  const std::string before = format_bytes(all.before.reserved);
  std::string text =
      fmt::format("{} ({} less{}", format_bytes(remedy.peaks.reserved),
                  format_bytes(printed_difference(all.before.reserved, remedy.peaks.reserved)),
                  before == format_bytes(shown) ? "" : fmt::format(" than the {} that are simulated as it is", before));
  if (all.has_time && remedy.has_time) {
    const std::string step = milliseconds(remedy.step_ms), as_is = milliseconds(all.step_ms);
    text += step == as_is ? ", with as long a step" : fmt::format(", the step {} instead of {}", step, as_is);
  }
  return text + ").";
}

/// Whether most of what it saves was allocated: blocks in use, not the gap above them.
bool saves_blocks(const sim::Remedies& all, const sim::Remedy& remedy) {
  return 2 * (gap(all.before) - gap(remedy.peaks)) < remedy.saving;
}

/// " --release stash would bring it to 6.32 GiB (…)." Of one that leaves the gap that is; and where another change
/// saves more, by taking less for what is in use, that one.
std::string remedy_words(const ExplainReport& report, const sim::Remedy& best) {
  const sim::Remedies& all = *report.remedies;
  const Bytes shown = report.explanation.reserved_peak.at.parts.reserved();
  std::string text;
  if (report.explanation.causes.empty() && best_of_gap(all) == nullptr)
    text = fmt::format(
        " None of {} simulated changes gives back more of what is above than a plan is sure of ({:.0f} % of the peak); "
        "with less allocated,",
        all.tried, accuracy::kPromises.clocked * 100);
  text += fmt::format(" {} would bring it to {}", best.setting, saved_words(all, best, shown));
  if (const sim::Remedy* most = saves_most(all, &best))
    text += fmt::format(" {} saves most{}: {}", most->setting, saves_blocks(all, *most) ? ", of what is allocated" : "",
                        saved_words(all, *most, shown));
  return text;
}

std::string remedy_sentence(const ExplainReport& report) {
  if (!report.explanation.failures.empty()) return {};
  if (!report.remedies)
    return report.no_remedies == kNoRemedies ? "" : " No change was simulated: " + report.no_remedies + '.';
  const sim::Remedies& all = *report.remedies;
  if (const sim::Remedy* ends = ends_retries(all)) return retries_words(all, *ends);
  if (const sim::Remedy* best = best_remedy(report)) return remedy_words(report, *best);
  if (all.out_of_memory) return {};
  if (const sim::Remedy* doubted = largest_doubted(all))
    return fmt::format(
        " No valid one of {} simulated changes gives back more of it than a plan is sure of ({:.0f} % of the peak); {} "
        "gives back {}, and that is not valid.",
        all.tried, accuracy::kPromises.clocked * 100, doubted->setting,
        format_bytes(static_cast<Bytes>(doubted->saving)));
  return fmt::format(
      " None of {} simulated changes gives back more of it than a plan is sure of ({:.0f} % of the peak).", all.tried,
      accuracy::kPromises.clocked * 100);
}

/// Where the first cause is of the moment at which most is pending, and that is another one than the headline's.
std::string pending_words(const Explanation& e) {
  if (e.causes.front().kind != CauseKind::record_stream) return {};
  const std::string pending = format_bytes(e.reserved_peak.at.parts.pending_free);
  const std::string most = format_bytes(e.pending_free_peak);
  if (pending == most) return {};
  return fmt::format(", of which {} are pending (at another moment {})", pending, most);
}

RunAnswer as_it_ran(const ExplainReport& report) {
  RunAnswer answer = memory_answer(report.run);
  if (!answer.peak_reserved) answer.peak_reserved = report.explanation.peaks.reserved;
  return answer;
}

bool within_limit(const RunAnswer& answer) {
  return !answer.out_of_memory && *answer.peak_reserved <= *answer.capacity;
}

/// Of a plan that its own limit shaped (it ran out of memory, or gave cached segments back), where another one is asked
/// about: that limit. What it reserved says nothing of a larger one.
std::optional<Bytes> other_limit(const ExplainReport& report, const RunAnswer& ran) {
  if (ran.deadlock) return std::nullopt;  // nothing of it is simulated again
  if (!report.memory_limit || report.run.info.kind != RunKind::planned || ran.capacity == report.memory_limit)
    return std::nullopt;
  const auto settled = stored_settled_memory(report.run);
  const bool retried =
      result_number(report.run, "num_alloc_retries").value_or(0) > 0 || (settled && settled->num_alloc_retries > 0);
  return ran.out_of_memory || retried ? ran.capacity : std::nullopt;
}

/// "under its own limit of 26 GiB it ran out of memory, with 25.92 GiB reserved until then".
std::string own_words(const RunAnswer& ran) {
  const std::string peak = format_bytes(*ran.peak_reserved);
  return fmt::format("under its own limit of {} it {}", format_bytes(*ran.capacity),
                     ran.out_of_memory
                         ? fmt::format("ran out of memory, with {} reserved until then", peak)
                         : fmt::format("fits, as the allocator gave cached segments back: {} were reserved", peak));
}

/// As plan says it, of what it tries but for what needs the model, which a store has not.
std::string what_fits(const ExplainReport& report) {
  return fitting_words(*report.remedies, report.remedies->own_not_valid, false) +
         (report.of_model ? "; a plan of the model itself tries other batch sizes and sequence lengths, too" : "");
}

/// Of such a plan: what it is under the limit that is asked about.
std::string under_another_limit(const ExplainReport& report, const RunAnswer& answer, const RunAnswer& ran) {
  const std::string limit = format_bytes(*report.memory_limit);
  if (!report.remedies) return fmt::format("whether it fits {} was not simulated; {}", limit, own_words(ran));
  if (!report.remedies->out_of_memory)
    return fmt::format("{}{}; simulated under that limit; {}", fit_line(answer),
                       report.remedies->retries_each_step ? ", with retries in each step" : "", own_words(ran));
  const bool smaller_fits = !ran.out_of_memory && *ran.capacity < *report.memory_limit;
  return fmt::format("does not fit {}: simulated under that limit it runs out of memory; {}{}; {}", limit,
                     own_words(ran), smaller_fits ? " (what a retry gives back depends on the limit)" : "",
                     what_fits(report));
}

/// Of a plan whose ranks draw lengths, where a limit is asked about and was not simulated: what its processes reserved,
/// if that was not shaped by another limit; none: it was, and says nothing of this one.
std::optional<sim::DrawnMemory> unlimited_drawn(const ExplainReport& report) {
  const auto drawn = stored_drawn_memory(report.run);
  if (!drawn || drawn->out_of_memory > 0 || drawn->num_alloc_retries > 0) return std::nullopt;
  return other_limit(report, as_it_ran(report)) ? std::nullopt : drawn;
}

RunAnswer drawn_fit_of(const ExplainReport& report, RunAnswer answer) {
  answer.lines.clear();
  answer.out_of_memory = false;
  if (report.drawn) {
    answer.lines = memory_lines(*report.drawn, false);
    answer.peak_reserved = std::max(sim::largest_peaks(*report.drawn).reserved, report.drawn->drawn_memory->most);
    answer.may_run_out_of_memory = report.drawn->may_run_out_of_memory;
  } else if (!unlimited_drawn(report)) {
    answer.peak_reserved.reset();
  }
  return answer;
}

/// The first line of such a plan under a limit that is asked about, in the words of `plan`.
std::string drawn_fit_answer(const ExplainReport& report) {
  if (report.drawn) return fmt::format("{}", fmt::join(memory_lines(*report.drawn, false), "; "));
  const RunAnswer ran = as_it_ran(report), answer = fit_of(report);
  const std::string limit = format_bytes(*report.memory_limit);
  if (!answer.peak_reserved)
    return fmt::format("whether it fits {} was not simulated with its drawn lengths; under its own limit of {} it {}",
                       limit, format_bytes(*ran.capacity), fit_line(ran));
  if (within_limit(answer)) return fit_line(answer);
  return fmt::format(
      "does not fit {}: {} reserved in steps whose lengths vary, {} more; whether it lives where the allocator gives "
      "cached segments back was not simulated",
      limit, format_bytes(*answer.peak_reserved),
      format_bytes(printed_difference(*answer.peak_reserved, *report.memory_limit)));
}

}  // namespace

RunAnswer fit_of(const ExplainReport& report) {
  RunAnswer answer = as_it_ran(report);
  if (!report.memory_limit) return answer;
  const bool says_nothing = other_limit(report, answer).has_value();
  answer.lines.clear();  // of the plan's own limit
  answer.capacity = report.memory_limit;
  answer.capacity_of = "--memory-limit";
  if (stored_drawn_memory(report.run)) return drawn_fit_of(report, std::move(answer));
  const bool later = report.remedies && report.remedies->most_reserved > report.remedies->before.reserved;
  const bool as_it_was = within_limit(answer) && !later;  // and not more in a longer run
  if (!says_nothing && (as_it_was || !report.remedies || report.remedies->out_of_memory)) return answer;
  answer.out_of_memory = report.remedies && report.remedies->out_of_memory;
  answer.peak_reserved = report.remedies ? std::optional(report.remedies->most_reserved) : std::nullopt;
  answer.grew_last = 0;  // that is as it ran
  return answer;
}

std::string fit_answer(const ExplainReport& report) {
  const RunAnswer answer = fit_of(report);
  if (stored_drawn_memory(report.run)) {
    if (report.memory_limit) return drawn_fit_answer(report);
    const std::string line = fit_line(answer);  // the plan's own
    const bool fails = answer.lines.size() > 1 && answer.lines.front().starts_with("does not fit");
    return fails ? fmt::format("{}; {}", answer.lines[0], answer.lines[1]) : line;
  }
  const bool remedied = report.remedies && report.remedies->out_of_memory;
  if (!report.memory_limit && answer.out_of_memory && remedied)
    return fmt::format("{}; {}", fit_line(answer), what_fits(report));
  const RunAnswer ran = as_it_ran(report);
  if (!answer.deadlock && other_limit(report, ran)) return under_another_limit(report, answer, ran);
  if (!report.memory_limit || (answer.deadlock && within_limit(answer))) return fit_line(answer);
  const std::string limit = format_bytes(*report.memory_limit);
  const std::string peak = format_bytes(*ran.peak_reserved);
  if (within_limit(answer))
    return fit_line(answer) +
           (*ran.peak_reserved == *answer.peak_reserved ? std::string()
            : *ran.peak_reserved < *answer.peak_reserved
                ? fmt::format("; simulated in a longer run{}: as it ran, {} were reserved",
                              report.remedies->retries_each_step ? " under that limit, with retries" : "", peak)
            : ran.out_of_memory
                ? fmt::format("; simulated under that limit: as it ran, it ran out of memory, at {}", peak)
                : fmt::format("; simulated under that limit, where the allocator gives cached "
                              "segments back{}: as it ran, {} were reserved",
                              report.remedies->retries_each_step ? " and retries in each step" : "", peak));
  std::string text = ran.out_of_memory || *ran.peak_reserved <= *report.memory_limit
                         ? fmt::format("does not fit {}: it ran out of memory", limit)
                         : fmt::format("does not fit {}: {} reserved at the peak, {} more", limit, peak,
                                       format_bytes(printed_difference(*ran.peak_reserved, *report.memory_limit)));
  if (answer.deadlock) return text + " until then";
  const bool of_this_limit = report.run.info.kind == RunKind::planned && ran.capacity == report.memory_limit;
  if (!report.remedies)
    return of_this_limit && ran.out_of_memory
               ? text
               : text + "; whether it lives where the allocator gives cached segments back was not simulated";
  return text +
         (ran.out_of_memory ? ", and simulated under that limit it does again; "
                            : ", and simulated under that limit it runs out of memory; ") +
         what_fits(report);
}

const sim::Remedy* best_remedy(const ExplainReport& report) {
  if (!report.remedies || report.remedies->out_of_memory) return nullptr;
  if (const sim::Remedy* ends = ends_retries(*report.remedies)) return ends->valid ? ends : nullptr;
  if (report.explanation.causes.empty()) {
    const sim::Remedy* best = best_of_gap(*report.remedies);
    return best != nullptr ? best : saves_most(*report.remedies);
  }
  const sim::Remedy* best = sim::best_against(*report.remedies, report.explanation.causes.front().kind);
  return best != nullptr && best->saving > noise(*report.remedies) ? best : nullptr;
}

std::string headline(const ExplainReport& report) {
  const Explanation& e = report.explanation;
  const MemoryParts& parts = e.reserved_peak.at.parts;
  std::string text;
  if (!e.failures.empty()) {
    const auto rank = out_of_memory_rank(report.run);
    const std::string size = format_bytes(e.failures.front().size);
    text = fmt::format(
        "Out of memory{}: {} found no memory{} with {} reserved. ",
        rank ? fmt::format(" on rank {}", *rank) : std::string(),
        e.failures.size() == 1 ? fmt::format("a request of {}", size) : fmt::format("{} requests", e.failures.size()),
        e.failures.size() == 1 ? std::string() : fmt::format(", the first of {}", size),
        format_bytes(e.failures.front().parts.reserved()));
  }
  text += fmt::format("{} at {}, {} above what is allocated then",
                      e.failures.empty() ? "Reserved memory peaks" : "Until then reserved memory peaks",
                      format_bytes(parts.reserved()), format_bytes(printed_gap(parts)));
  if (e.causes.empty())
    text += fmt::format(", and nothing unusual holds it (most of it: {}).", [&] {
      std::vector<NamedPart> named = named_parts(parts);
      const PrintedParts printed = printed_memory_parts(parts);
      for (std::size_t i = 0; i < named.size(); ++i) named[i].bytes = printed.named[i];
      const auto most = std::max_element(named.begin() + 2, named.end(),
                                         [](const NamedPart& a, const NamedPart& b) { return a.bytes < b.bytes; });
      return fmt::format("{} {}", format_bytes(most->bytes), most->meaning);
    }());
  else
    text += fmt::format("{}. {}.", pending_words(e), e.causes.front().text);
  return text + remedy_sentence(report);
}

}  // namespace foreshard::cli
