#include "cli/options/sweep_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "cli/options/options.hpp"
#include "core/base/units.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "sim/sweep/sweep_part.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

constexpr Bytes kLargestPart = Bytes{1} << 30;
std::optional<sim::SweepPart> part_of(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto number = parse_count(text.substr(0, slash)), of = parse_count(text.substr(slash + 1));
  if (!number || !of || *of == 0 || *of > sim::kMaxSweepParts || *number >= *of) return std::nullopt;
  return sim::SweepPart{static_cast<std::uint32_t>(*number), static_cast<std::uint32_t>(*of)};
}

/// Names of parts in the folder, in order of their numbers.
Result<std::vector<sim::SweepPart>> parts_in(const std::string& folder) {
  std::error_code error;
  std::vector<sim::SweepPart> out;
  const std::regex name("part-([0-9]{1,5})-of-([0-9]{1,5})\\.json");
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::smatch match;
    const std::string file = at->path().filename().string();
    if (!std::regex_match(file, match, name)) continue;
    if (const auto part = part_of(match[1].str() + "/" + match[2].str())) out.push_back(*part);
  }
  if (error) return fail(ErrorKind::input, "cannot be read: " + error.message(), folder);
  if (out.empty())
    return fail(ErrorKind::input, "holds no parts of a sweep", folder, "simulate them with --part 0/8, 1/8, …");
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return std::pair(a.of, a.number) < std::pair(b.of, b.number); });
  if (out.front().of != out.back().of)
    return fail(ErrorKind::input, fmt::format("holds parts of {} and of {}", out.front().of, out.back().of), folder,
                "give each way of splitting a folder of its own");
  return out;
}

std::uint32_t first_missing(const std::vector<sim::SweepPart>& parts) {
  std::uint32_t next = 0;
  while (next < parts.size() && parts[next].number == next) ++next;
  return next;
}

/// Which are missing of all: "2, 5 to 7".
std::string missing(const std::vector<sim::SweepPart>& parts) {
  std::string out;
  std::uint32_t next = 0;
  const auto gap = [&](std::uint32_t end) {
    if (next < end)
      out += fmt::format("{}{}{}", out.empty() ? "" : ", ", next, end - next > 1 ? fmt::format(" to {}", end - 1) : "");
  };
  for (const sim::SweepPart& part : parts) {
    gap(part.number);
    next = part.number + 1;
  }
  gap(parts.front().of);
  return out;
}

}  // namespace

void PartsOptions::add_to(OptionSet& set) {
  set.add_option("--part", part,
                 "simulate this share of the points alone, of 8 the one numbered 3 (from 0), and write it to --parts; "
                 "auto: as srun, mpirun, torchrun or a Slurm job array number this task")
      .type_name("I/N|auto");
  set.add_option("--parts", folder, "folder of parts; without --part: the answer of all of them together")
      .type_name("DIR");
}

Result<std::optional<sim::SweepPart>> PartsOptions::wanted() const {
  if (part.empty()) return std::nullopt;
  if (folder.empty())
    return fail(ErrorKind::usage, "a part of a sweep is written to a folder", "--part", "give it with --parts DIR");
  if (part != "auto") {
    if (const auto given = part_of(part)) return given;
    return fail(ErrorKind::usage, fmt::format("'{:.40}' is no part", part), "--part",
                "as in 3/8, which is the fourth of eight, or auto");
  }
  const auto task = gpu::read_task(gpu::process_variables());
  FORESHARD_TRY(task);
  if (!*task)
    return fail(ErrorKind::usage, "no launcher says which of several tasks this is", "--part auto",
                "start it with srun, mpirun, torchrun or sbatch --array, or give --part 3/8");
  return sim::SweepPart{(*task)->task, (*task)->tasks};
}

std::string part_path(const std::string& folder, const sim::SweepPart& part) {
  return fmt::format("{}/part-{}-of-{}.json", folder, part.number, part.of);
}

Result<void> write_part(const std::string& folder, const sim::SweepPart& part, const std::string& fingerprint,
                        const std::vector<sim::SweepPoint>& points, bool force) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorKind::input, "cannot be made: " + error.message(), folder);
  return write_text(part_path(folder, part), sim::part_text(part, fingerprint, points), force);
}

Result<std::vector<std::optional<sim::SweepPoint>>> read_parts(const std::string& folder,
                                                               const std::string& fingerprint, std::size_t points) {
  const auto parts = parts_in(folder);
  FORESHARD_TRY(parts);
  std::vector<std::optional<sim::SweepPoint>> out(points);
  for (const sim::SweepPart& part : *parts) {
    const std::string path = part_path(folder, part);
    const auto text = traces::read_text(path, kLargestPart);
    FORESHARD_TRY(text);
    auto file = sim::parse_part(*text, path);
    FORESHARD_TRY(file);
    if (file->part.number != part.number || file->part.of != part.of)
      return fail(ErrorKind::input, fmt::format("holds part {} of {}", file->part.number, file->part.of), path);
    if (file->fingerprint != fingerprint || file->points.size() != points)
      return fail(ErrorKind::mismatch, "is a part of another sweep, or of another foreshard", path,
                  "give the source and the ranges that it was made with, or another folder");
    for (std::size_t i = 0; i < points; ++i)
      if (file->points[i]) out[i] = std::move(file->points[i]);
  }
  if (parts->size() < parts->front().of)
    return fail(
        ErrorKind::usage,
        fmt::format("{} of {} parts are there; missing: {}", parts->size(), parts->front().of, missing(*parts)), folder,
        fmt::format("simulate each again: --part {}/{} for the first", first_missing(*parts), parts->front().of));
  return out;
}

}  // namespace foreshard::cli
