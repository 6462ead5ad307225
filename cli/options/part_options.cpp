#include "cli/options/part_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/options/options.hpp"
#include "core/base/units.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

constexpr Bytes kLargestPart = Bytes{1} << 30;

std::optional<sim::Part> part_of(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto number = parse_count(text.substr(0, slash)), of = parse_count(text.substr(slash + 1));
  if (!number || !of || *of == 0 || *of > sim::kMaxParts || *number >= *of) return std::nullopt;
  return sim::Part{static_cast<std::uint32_t>(*number), static_cast<std::uint32_t>(*of)};
}

std::string_view ending_of(PartForm form) {
  return form == PartForm::file ? ".json" : "";
}

std::string name_of(const sim::Part& part, PartForm form) {
  return fmt::format("part-{}-of-{}{}", part.number, part.of, ending_of(form));
}

/// By its name; none: another file, as "part-00-of-8.json" is.
std::optional<sim::Part> part_named(const std::string& name, PartForm form) {
  static const std::regex kName("part-([0-9]{1,5})-of-([0-9]{1,5})(\\.json)?");
  std::smatch match;
  if (!std::regex_match(name, match, kName)) return std::nullopt;
  const auto part = part_of(match[1].str() + "/" + match[2].str());
  return part && name_of(*part, form) == name ? part : std::nullopt;
}

/// Those of the names in the folder.
Result<std::vector<sim::Part>> parts_named_in(const std::string& folder, PartForm form) {
  std::error_code error;
  std::vector<sim::Part> out;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (const auto part = part_named(at->path().filename().string(), form)) out.push_back(*part);
  }
  if (error) return fail(ErrorKind::input, "cannot be read: " + error.message(), folder);
  return out;
}

/// The numbers that no part has, of all.
std::vector<std::uint32_t> missing(const std::vector<sim::Part>& parts) {
  std::vector<std::uint32_t> out;
  auto next = parts.begin();
  for (std::uint32_t number = 0; number < parts.front().of; ++number) {
    if (next != parts.end() && next->number == number)
      ++next;
    else
      out.push_back(number);
  }
  return out;
}

}  // namespace

void PartsOptions::add_to(OptionSet& set, std::string_view pieces) {
  set.add_option("--part", part,
                 fmt::format("simulate this share of the {} alone, of 8 the one numbered 3 (from 0), and write it to "
                             "--parts; auto: as srun, mpirun, torchrun or a Slurm job array number this task",
                             pieces))
      .type_name("I/N|auto");
  set.add_option("--parts", folder, "folder of parts; without --part: the answer of all of them together")
      .type_name("DIR")
      .writes();
}

Result<std::optional<sim::Part>> PartsOptions::wanted() const {
  if (part.empty()) return std::nullopt;
  if (folder.empty())
    return fail(ErrorKind::usage, "a part is written to a folder", "--part", "give it with --parts DIR");
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
  return sim::Part{(*task)->task, (*task)->tasks};
}

std::string part_path(const std::string& folder, const sim::Part& part, PartForm form) {
  return folder + "/" + name_of(part, form);
}

Result<std::vector<sim::Part>> parts_of_folder(const std::string& folder, PartForm form) {
  auto found = parts_named_in(folder, form);
  FORESHARD_TRY(found);
  std::vector<sim::Part> out = std::move(*found);
  if (out.empty()) return fail(ErrorKind::input, "holds no parts", folder, "simulate them with --part 0/8, 1/8, …");
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return std::pair(a.of, a.number) < std::pair(b.of, b.number); });
  if (out.front().of != out.back().of)
    return fail(ErrorKind::input, fmt::format("holds parts of {} and of {}", out.front().of, out.back().of), folder,
                "give each way of splitting a folder of its own");
  return out;
}

std::string numbers_text(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}{}", i == 0 ? "" : ", ", numbers[i], last > i ? fmt::format(" to {}", numbers[last]) : "");
    i = last + 1;
  }
  return out;
}

Result<void> make_parts_folder(const std::string& folder, const sim::Part& part, PartForm form) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorKind::input, "cannot be made: " + error.message(), folder);
  const auto others = parts_named_in(folder, form);
  FORESHARD_TRY(others);
  for (const sim::Part& other : *others)
    if (other.of != part.of)
      return fail(ErrorKind::usage, fmt::format("holds parts of {}", other.of), folder,
                  "give each way of splitting a folder of its own");
  return {};
}

Result<void> may_write_part(const std::string& folder, const sim::Part& part, bool force) {
  FORESHARD_TRY(make_parts_folder(folder, part, PartForm::file));
  return may_write(part_path(folder, part), force);
}

Result<void> write_part(const std::string& folder, const sim::Part& part, const std::string& text, bool force) {
  FORESHARD_TRY(may_write_part(folder, part, force));  // other tasks may have written since
  return write_text(part_path(folder, part), text, force);
}

WrittenPart written_part(const PartsOptions& options, const sim::Part& part, std::size_t pieces) {
  return {part, part.size(pieces), pieces, part_path(options.folder, part)};
}

std::string part_words(const PartsOptions& options, const WrittenPart& written, std::string_view what) {
  const sim::Part& part = written.part;
  return fmt::format(
      "part {} of {} (0 to {}): {} of {} {} are in {}; once all parts are there, the same command with --parts {} and "
      "without --part answers",
      part.number, part.of, part.of - 1, written.own, written.pieces, what, written.path, options.folder);
}

Json part_json(std::string_view verb, const WrittenPart& written, const std::string& fingerprint) {
  Json json = json_result(verb);
  json["part"] = written.part.number;
  json["parts"] = written.part.of;
  json["pieces_of_part"] = written.own;
  json["pieces"] = written.pieces;
  json["fingerprint"] = fingerprint;
  json["file"] = written.path;
  return json;
}

Result<std::vector<PartText>> read_parts(const std::string& folder) {
  const auto parts = parts_of_folder(folder, PartForm::file);
  FORESHARD_TRY(parts);
  if (const auto lost = missing(*parts); !lost.empty())
    return fail(
        ErrorKind::usage,
        fmt::format("{} of {} parts are there; missing: {}", parts->size(), parts->front().of, numbers_text(lost)),
        folder, fmt::format("simulate each again: --part {}/{} for the first", lost.front(), parts->front().of));
  std::vector<PartText> out;
  for (const sim::Part& part : *parts) {
    const std::string path = part_path(folder, part);
    auto text = traces::read_text(path, kLargestPart);
    FORESHARD_TRY(text);
    out.push_back({part, path, std::move(*text)});
  }
  return out;
}

Result<void> check_part(const PartText& file, const sim::Part& part, bool same_work) {
  if (part != file.part)
    return fail(ErrorKind::input, fmt::format("holds part {} of {}", part.number, part.of), file.path,
                "simulate this part again");
  if (!same_work)
    return fail(ErrorKind::mismatch, "is a part of other work, or of another foreshard", file.path,
                "give the source and the options that it was made with, or another folder");
  return {};
}

}  // namespace foreshard::cli
