// A folder that a framework or the recorder wrote: which of its files are the recording, of which rank and which step.
//
// Read from names alone, as these programs write them (2026-11):
// - the recorder (docs/record.md): about.json, rank00000/snapshot.pickle.gz, rank00000/trace.json.gz
// - torchtitan (torchtitan/tools/profiling.py): profiling/traces/iteration_N/rankR_trace.json[.gz],
//   profiling/memory_snapshot/step_N[_exit]/RRRRRR_step_N.pickle, config.json; its log is wherever it was sent: any
//   *.log (torchrun's --log-dir has RUN/attempt_0/LOCAL_RANK/stdout.log)
// - accelerate (ProfileKwargs): profile_R.json
// - axolotl: snapshot.pickle, profiler_trace.json, of whichever rank wrote last
// - verl: ..._stepN..._rankR-of-W_....json.gz, ..._rankR_pidP.pickle
// - tensorboard_trace_handler: HOST_PID.TIME.pt.trace.json[.gz]
//
// Links are not followed and nothing is opened. Deterministic: the same names give the same files.
//
// Who: cli's import. Thread safety: free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::traces {

enum class RecordingFileKind : std::uint8_t { snapshot, trace, about, config, log };

struct RecordingFile {
  RecordingFileKind kind = RecordingFileKind::snapshot;
  std::string path;                   ///< below the folder
  std::optional<std::uint32_t> rank;  ///< none: the name does not say
  std::optional<std::uint64_t> step;
};

/// What a file is, by its path below the folder; none: nothing that an import reads.
[[nodiscard]] std::optional<RecordingFile> recording_file(std::string_view path);

struct RecordingFiles {
  std::vector<RecordingFile> files;  ///< by path
  std::uint64_t links = 0;           ///< symbolic links, which are not followed
  std::uint64_t unread = 0;          ///< folders that are too deep or must not be read
};

/// The recording's files below `folder`. Fails with ErrorKind::input where it cannot be listed, or has more than
/// `max_entries`: whoever gives a home folder should not wait for all of it.
[[nodiscard]] Result<RecordingFiles> recording_files(const std::string& folder, std::uint64_t max_entries = 100'000);

struct WantedRecording {
  std::optional<std::uint32_t> rank;  ///< none: the lowest
  std::optional<std::uint32_t> step;  ///< none: the last of the snapshots; of the traces where there are none
  bool all_ranks = false;             ///< every rank's trace of that step, beside the files of `rank`
};

/// A snapshot or trace of a rank.
struct RankFile {
  std::uint32_t rank = 0;
  std::string path;
};

/// Paths to import; empty: none there.
struct ChosenRecording {
  std::string snapshot;
  std::string trace;
  std::string about;
  std::vector<std::string> rank_traces;  ///< of the other ranks, by rank
  std::string config;                    ///< config.json, the outermost
  std::vector<std::string> logs;         ///< by path
  std::optional<std::uint32_t> rank;     ///< whose snapshot and trace these are; none: names do not say
  std::vector<RankFile> ranks;           ///< one file of each rank that the folder has, by rank, chosen or not
  std::vector<std::string> notes;        ///< what was chosen among several, and what was left, a sentence each
};

/// The files of one rank and step. Fails with ErrorKind::input where there is neither snapshot nor trace (naming the
/// layouts that are known), with ErrorKind::usage where `wanted` names what is not there (naming what is), and with
/// ErrorKind::mismatch where several files would do and nothing tells them apart.
[[nodiscard]] Result<ChosenRecording> choose_recording(const std::string& folder, const RecordingFiles& found,
                                                       const WantedRecording& wanted);

}  // namespace foreshard::traces
