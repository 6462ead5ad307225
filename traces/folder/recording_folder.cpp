#include "traces/folder/recording_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <system_error>

namespace foreshard::traces {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 8;  // torchtitan's snapshots lie four deep
constexpr std::size_t kNamed = 8;
constexpr std::string_view kLayouts =
    "known are the recorder's folder, torchtitan's outputs/, accelerate's, axolotl's and verl's; or give the files: "
    "--snapshot, --trace";

using FilePointers = std::vector<const RecordingFile*>;

std::string names_of(const FilePointers& files) {
  std::string out;
  for (std::size_t i = 0; i < std::min(files.size(), kNamed); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ", ", files[i]->path);
  if (files.size() > kNamed) out += fmt::format(" and {} more", files.size() - kNamed);
  return out;
}

template <class Numbers>
std::string list_of(const Numbers& numbers) {
  std::string out;
  std::size_t left = kNamed;
  for (const auto number : numbers) {
    if (left-- == 0) return out + ", …";
    out += fmt::format("{}{}", out.empty() ? "" : ", ", number);
  }
  return out;
}

FilePointers of_kind(const std::vector<RecordingFile>& files, RecordingFileKind kind) {
  FilePointers out;
  for (const RecordingFile& file : files)
    if (file.kind == kind) out.push_back(&file);
  return out;
}

void keep(FilePointers& files, const std::function<bool(const RecordingFile&)>& wanted) {
  std::erase_if(files, [&](const RecordingFile* file) { return !wanted(*file); });
}

std::set<std::uint64_t> steps_of(const FilePointers& files) {
  std::set<std::uint64_t> steps;
  for (const RecordingFile* file : files)
    if (file->step) steps.insert(*file->step);
  return steps;
}

class FileSelection {
 public:
  FileSelection(const std::string& folder, const RecordingFiles& found, const WantedRecording& wanted)
      : folder_(folder),
        found_(found),
        wanted_(wanted),
        snapshots_(of_kind(found.files, RecordingFileKind::snapshot)),
        traces_(of_kind(found.files, RecordingFileKind::trace)) {}

  Result<ChosenRecording> run() {
    if (snapshots_.empty() && traces_.empty())
      return fail(ErrorKind::input, "has neither a memory snapshot nor a profiler trace", folder_,
                  std::string(kLayouts));
    FORESHARD_TRY(choose_rank());
    FORESHARD_TRY(choose_step());
    for (const auto& [files, path] :
         {std::pair{&snapshots_, &out_.snapshot}, {&traces_, &out_.trace}, {&abouts_, &out_.about}})
      FORESHARD_TRY(take(*files, *path));
    FORESHARD_TRY(take_others());
    take_beside();
    if (found_.links > 0) out_.notes.push_back(fmt::format("{} links were not followed", found_.links));
    if (found_.unread > 0)
      out_.notes.push_back(fmt::format("{} folders were not read: too deep, or not permitted", found_.unread));
    return std::move(out_);
  }

 private:
  Result<void> choose_rank() {
    std::map<std::uint32_t, const RecordingFile*> file_of;
    for (const FilePointers* files : {&snapshots_, &traces_})
      for (const RecordingFile* file : *files)
        if (file->rank) file_of.try_emplace(*file->rank, file);
    std::set<std::uint32_t> ranks;
    for (const auto& [rank, file] : file_of) {
      ranks.insert(rank);
      out_.ranks.push_back({rank, (fs::path(folder_) / file->path).string()});
    }
    if (wanted_.rank && !ranks.contains(*wanted_.rank))
      return fail(ErrorKind::usage, fmt::format("has no file of rank {}", *wanted_.rank), folder_,
                  ranks.empty() ? "its files' names have no ranks" : "its ranks: " + list_of(ranks));
    if (ranks.empty()) {
      out_.notes.emplace_back("the files' names have no rank: they are those of whichever rank wrote last");
      return {};
    }
    const std::uint32_t rank = wanted_.rank.value_or(*ranks.begin());
    out_.rank = rank;
    if (wanted_.all_ranks) others_ = traces_;
    keep(others_, [&](const RecordingFile& file) { return file.rank && file.rank != rank; });
    keep_rank(snapshots_, rank);
    keep_rank(traces_, rank);
    if (ranks.size() > 1 && !wanted_.all_ranks)
      out_.notes.push_back(fmt::format("rank {} of ranks {}; --rank all takes all", rank, list_of(ranks)));
    return {};
  }

  /// Those of the rank; where there are none, those that do not say whose they are.
  static void keep_rank(FilePointers& files, std::uint32_t rank) {
    const bool any = std::any_of(files.begin(), files.end(), [&](const RecordingFile* f) { return f->rank == rank; });
    keep(files, [&](const RecordingFile& file) { return any ? file.rank == rank : !file.rank; });
  }

  Result<void> choose_step() {
    const std::set<std::uint64_t> steps = steps_of(snapshots_.empty() ? traces_ : snapshots_);
    if (wanted_.step && !steps.contains(*wanted_.step))
      return fail(ErrorKind::usage, fmt::format("has no recording of step {}", *wanted_.step), folder_,
                  steps.empty() ? "its files' names have no steps" : "its steps: " + list_of(steps));
    if (steps.empty()) return {};
    const std::uint64_t step = wanted_.step ? *wanted_.step : *steps.rbegin();  // value_or would cut it to 32 bits
    if (steps.size() > 1) out_.notes.push_back(fmt::format("step {} of steps {}", step, list_of(steps)));
    keep(snapshots_, [&](const RecordingFile& file) { return file.step == step; });
    // Profiler and snapshot have frequencies of their own.
    const std::set<std::uint64_t> traced = steps_of(traces_);
    if (traced.empty()) return {};
    const std::uint64_t trace_step = traced.contains(step) ? step : *traced.rbegin();
    for (FilePointers* files : {&traces_, &others_})
      keep(*files, [&](const RecordingFile& file) { return file.step == trace_step; });
    if (trace_step != step)
      out_.notes.push_back(fmt::format("the snapshot is of step {}, the trace of step {}", step, trace_step));
    return {};
  }

  /// What else a framework wrote: its configuration, of several the outermost, and its logs.
  void take_beside() {
    const auto depth = [](const RecordingFile* file) { return std::count(file->path.begin(), file->path.end(), '/'); };
    const FilePointers configs = of_kind(found_.files, RecordingFileKind::config);
    const auto outermost = std::min_element(configs.begin(), configs.end(),
                                            [&](const auto* a, const auto* b) { return depth(a) < depth(b); });
    if (outermost != configs.end()) out_.config = (fs::path(folder_) / (*outermost)->path).string();
    for (const RecordingFile* log : of_kind(found_.files, RecordingFileKind::log))
      out_.logs.push_back((fs::path(folder_) / log->path).string());
  }
  Result<void> take(const FilePointers& files, std::string& path) const {
    if (files.size() > 1)
      return fail(ErrorKind::mismatch, "has several files that would do: " + names_of(files), folder_,
                  "give the ones of one run: --snapshot, --trace, --about");
    if (!files.empty()) path = (fs::path(folder_) / files.front()->path).string();
    return {};
  }

  Result<void> take_others() {
    std::map<std::uint32_t, const RecordingFile*> by_rank;
    for (const RecordingFile* file : others_) {
      const auto [other, is_new] = by_rank.try_emplace(*file->rank, file);
      if (!is_new)
        return fail(ErrorKind::mismatch, "has several files that would do: " + names_of({other->second, file}), folder_,
                    "give the folder of one run, or --step");
    }
    for (const auto& [rank, file] : by_rank) out_.rank_traces.push_back((fs::path(folder_) / file->path).string());
    return {};
  }

  const std::string& folder_;
  const RecordingFiles& found_;
  const WantedRecording& wanted_;
  FilePointers snapshots_;
  FilePointers traces_;
  FilePointers others_;  ///< traces of the other ranks, where all are wanted
  FilePointers abouts_ = of_kind(found_.files, RecordingFileKind::about);
  ChosenRecording out_;
};

}  // namespace

Result<RecordingFiles> recording_files(const std::string& folder, std::uint64_t max_entries) {
  RecordingFiles out;
  std::error_code error;
  if (fs::is_regular_file(folder, error))
    return fail(
        ErrorKind::input, "is a file, not a folder", folder,
        "give the recording's folder, or its files: --snapshot, --trace; plan, explain, view, compare and query "
        "take what import wrote");
  fs::recursive_directory_iterator at(folder, fs::directory_options::none, error);
  if (error)
    return fail(ErrorKind::input, "cannot be listed: " + error.message(), folder,
                "give a folder, or a recording's files: --snapshot, --trace");
  std::uint64_t entries = 0;
  for (const fs::recursive_directory_iterator end; at != end; at.increment(error)) {
    if (error) break;
    if (++entries > max_entries)
      return fail(ErrorKind::input, fmt::format("has more than {} entries", max_entries), folder,
                  "give the recording's own folder, or its files: --snapshot, --trace");
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    if (fs::is_symlink(status)) {
      ++out.links;
    } else if (fs::is_directory(status)) {
      const bool readable = ::access(at->path().c_str(), R_OK | X_OK) == 0;
      if (readable && at.depth() < kMaxDepth) continue;
      ++out.unread;
      at.disable_recursion_pending();
    } else if (fs::is_regular_file(status)) {
      if (auto file = recording_file(at->path().lexically_relative(folder).generic_string()))
        out.files.push_back(std::move(*file));
    }
  }
  if (error) return fail(ErrorKind::input, "cannot be listed: " + error.message(), folder);
  std::sort(out.files.begin(), out.files.end(),
            [](const RecordingFile& a, const RecordingFile& b) { return a.path < b.path; });
  return out;
}

Result<ChosenRecording> choose_recording(const std::string& folder, const RecordingFiles& found,
                                         const WantedRecording& wanted) {
  return FileSelection(folder, found, wanted).run();
}

}  // namespace foreshard::traces
