#include "cli/verbs/batch_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "cli/options/options.hpp"
#include "cli/options/part_options.hpp"
#include "core/base/units.hpp"
#include "sim/tune/tune_part.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The folders of other tasks are looked at after 1 ms, then after twice as long each time, up to 100 ms: less than a
// point takes at first, and a few requests a second to the server of a shared file system.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{100};

/// By listing its folder: opening one asks the server anew (NFS's close-to-open consistency), where the name of a file
/// that was not there a moment ago may be known as missing for a minute. False where there is no such folder.
bool is_listed(const std::filesystem::path& file) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(file.parent_path(), error), end; !error && at != end; at.increment(error))
    if (at->path().filename() == file.filename()) return true;
  return false;
}

}  // namespace

struct BatchParts::Shares {
  std::size_t batch = 0;
  std::string fingerprint;                             // of the batch
  std::vector<std::optional<sim::SweepPoint>> points;  // by place
  std::vector<std::uint32_t> missing;                  // parts, in order

  Shares(const sim::TuneBatch& of, const std::string& search)
      : batch(of.number), fingerprint(sim::batch_fingerprint(search, of)), points(of.settings.size()) {}
};

Result<BatchParts> BatchParts::open(BatchPartsRequest request, Console& console) {
  if (!request.part) {
    const auto parts = parts_of_folder(request.folder, PartForm::folder);
    FORESHARD_TRY(parts);
    return BatchParts(std::move(request), parts->front().of, console);
  }
  const std::uint32_t of = request.part->of;
  FORESHARD_TRY(make_parts_folder(request.folder, *request.part, PartForm::folder));
  BatchParts out(std::move(request), of, console);
  std::error_code error;
  std::filesystem::create_directories(out.own_folder(), error);
  if (error) return fail(ErrorKind::input, "cannot be made: " + error.message(), out.own_folder());
  return out;
}

std::string BatchParts::own_folder() const {
  return part_path(request_.folder, request_.part.value_or(sim::Part{}), PartForm::folder);
}

std::string BatchParts::path(std::uint32_t part, std::size_t batch) const {
  return fmt::format("{}/batch-{}.json", part_path(request_.folder, {part, of_}, PartForm::folder), batch);
}

/// One part's share, where it is there.
Result<bool> BatchParts::take(std::uint32_t part, Shares& shares) const {
  const std::string file = path(part, shares.batch);
  if (!is_listed(file)) return false;
  const auto text = traces::read_text(file);
  FORESHARD_TRY(text);
  const auto damaged = [&](Error error) {
    if (error.kind == ErrorKind::input)
      error.hint = fmt::format("simulate its part again: --part {}/{} --force", part, of_);
    return tl::unexpected(std::move(error));
  };
  auto read = sim::parse_tune_part(*text, file);
  if (!read) return damaged(std::move(read).error());
  const bool same = read->fingerprint == shares.fingerprint && read->found.size() == shares.points.size();
  if (auto checked = check_part({{part, of_}, file, {}}, read->part, same); !checked)
    return damaged(std::move(checked).error());
  for (std::size_t i = 0; i < shares.points.size(); ++i)
    if (read->found[i]) shares.points[i] = std::move(*read->found[i]);
  return true;
}

/// Before the others' are waited for.
Result<void> BatchParts::share_own(Shares& shares, const sim::SimulatePlaces& simulate) {
  const sim::Part own = *request_.part;
  const std::size_t count = own.size(shares.points.size());
  if (count == 0) return {};
  own_points_ += count;
  if (!request_.force) {
    const auto there = take(own.number, shares);
    FORESHARD_TRY(there);
    if (*there) return {};
  }
  std::vector<std::size_t> places;
  for (std::size_t i = own.number; i < shares.points.size(); i += own.of) places.push_back(i);
  std::vector<sim::SweepPoint> found = simulate(places);
  std::vector<sim::SweepPoint> points(shares.points.size());
  for (std::size_t i = 0; i < places.size(); ++i) points[places[i]] = std::move(found[i]);
  FORESHARD_TRY(write_text(path(own.number, shares.batch), sim::tune_part_text(own, shares.fingerprint, points), true));
  for (const std::size_t place : places) shares.points[place] = std::move(points[place]);
  return {};
}

/// Those that are missing are looked for until all are there that are waited for, or their time is over.
Result<void> BatchParts::take_others(Shares& shares) {
  const auto begin = Clock::now();
  const std::chrono::nanoseconds most(request_.part ? request_.wait.count : 0);
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const bool is_over = Clock::now() - begin >= most;
    std::vector<std::uint32_t> missing;
    for (const std::uint32_t part : shares.missing) {
      const auto there = take(part, shares);
      FORESHARD_TRY(there);
      if (*there)
        lost_.erase(part);
      else
        missing.push_back(part);
    }
    shares.missing = std::move(missing);
    const bool waits = std::any_of(shares.missing.begin(), shares.missing.end(),
                                   [this](std::uint32_t part) { return !lost_.contains(part); });
    if (!waits || is_over) return {};
    std::this_thread::sleep_for(pause);
  }
}

/// Names those that are missing and were waited for.
void BatchParts::give_up(const Shares& shares) {
  std::vector<std::uint32_t> new_ones;
  for (const std::uint32_t part : shares.missing)
    if (lost_.insert(part).second) new_ones.push_back(part);
  if (new_ones.empty()) return;
  const bool one = new_ones.size() == 1;
  console_->warn(fmt::format(
      "{}: {} {} of {} {} no share of batch {} there after {}: {} simulated here; run {} again, which takes what is "
      "there: --part {}/{}{}",
      request_.folder, one ? "part" : "parts", numbers_text(new_ones), of_, one ? "has" : "have", shares.batch,
      format_time(request_.wait), one ? "it is" : "they are", one ? "it" : "each", new_ones.front(), of_,
      one ? "" : " for the first"));
}

Result<void> BatchParts::all_there(const Shares& shares) const {
  if (shares.missing.empty()) return {};
  const bool one = shares.missing.size() == 1;
  return fail(ErrorKind::usage,
              fmt::format("{} {} of {} {} no share of batch {} there", one ? "part" : "parts",
                          numbers_text(shares.missing), of_, one ? "has" : "have", shares.batch),
              request_.folder,
              fmt::format("run {} again, which takes what is there: --part {}/{}{}", one ? "it" : "each",
                          shares.missing.front(), of_, one ? "" : " for the first"));
}

Result<std::vector<sim::SweepPoint>> BatchParts::points(const sim::TuneBatch& batch,
                                                        const sim::SimulatePlaces& simulate) {
  Shares shares(batch, request_.fingerprint);
  if (request_.part) FORESHARD_TRY(share_own(shares, simulate));
  for (std::uint32_t part = 0; part < std::min<std::size_t>(of_, shares.points.size()); ++part)
    if (!request_.part || part != request_.part->number) shares.missing.push_back(part);
  FORESHARD_TRY(take_others(shares));
  if (!request_.part) FORESHARD_TRY(all_there(shares));
  give_up(shares);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < shares.points.size(); ++i)
    if (!shares.points[i]) places.push_back(i);
  std::vector<sim::SweepPoint> found = simulate(places);
  for (std::size_t i = 0; i < places.size(); ++i) shares.points[places[i]] = std::move(found[i]);
  std::vector<sim::SweepPoint> out;
  for (std::optional<sim::SweepPoint>& one : shares.points) out.push_back(std::move(*one));
  return out;
}

}  // namespace foreshard::cli
