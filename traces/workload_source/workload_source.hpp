// SOURCE of plan, sweep and run: what is predicted. A workload (a run store's, or a file's), or a model (a preset, a
// Hugging Face config.json, a safetensors checkpoint's headers) from which workloads are generated.
// docs/sources.md describes each for users.
//
// Reads files; otherwise without state. Who: cli's verbs that take a SOURCE.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"
#include "core/run/job_options.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/sweep.hpp"
#include "traces/store/open_options.hpp"

namespace foreshard::traces {

struct SourceRequest {
  std::string text;                          ///< a path or a preset's name; a preset's name wins, "./mlp" is a file
  std::optional<std::uint64_t> dim = {};     ///< `--dim`: another width of a preset
  std::optional<std::uint32_t> layers = {};  ///< `--layers`
  std::optional<double> dropout = {};        ///< `--dropout`
  bool compiled = false;                     ///< `--compile`: of a model, torch.compile of each block
  std::optional<Lowering> lowering = {};     ///< whose program is wanted; none: the store's or file's, else PyTorch's
  std::vector<std::string> frozen = {};      ///< `--freeze`: ModelConfig::frozen
  LoraConfig lora = {};                      ///< `--lora`, `--lora-targets`
  OpenOptions store = {};                    ///< how a run store is opened
};

/// The options that make another model of the same name, as they are typed: "--compile", "--dim 1024 --lora 8"; empty:
/// none.
[[nodiscard]] std::string model_options(const SourceRequest& request);

struct Source {
  std::string name;
  /// Those of the recording; of a stored plan or an executed run its own; of a model PyTorch's defaults, with its batch
  /// and seq.
  Settings settings;
  std::shared_ptr<const Workload> workload;  ///< null for a model
  std::optional<ModelConfig> model;
  std::string machine;  ///< name of the profile that a run store names; empty: none
  /// Whose program its workloads are. Of foreshard's, a model's say what their kernels compute, for a GPU that runs
  /// them.
  Lowering lowering = Lowering::pytorch;
  std::vector<std::string> notes;  ///< how a model file was understood
  JobOptions job_options;          ///< of a stored plan: what left_out() is of
  std::string store = {};          ///< then, its path
  /// What a model file asks for and a plan leaves out, or that a store was read unverified; it is not `valid` then.
  std::vector<std::string> warnings;
  bool recorded = false;  ///< a run store that import wrote
  std::string gpu = {};   ///< what a run store says of it: "NVIDIA H200"; empty: nothing
  /// Of a stored plan: what its caching allocator could take, and its --fabric; empty: the machine's.
  std::optional<Bytes> memory_capacity = {};
  std::string fabric = {};
  std::string topology = {};       ///< JSON, as the plan's key of that name; empty: none
  std::string model_options = {};  ///< model_options() of a model, or of the one that a stored plan was made from
  /// The preset of that name and of those options, of a stored plan's workload. Whether it makes that workload is for
  /// workloads_of() to see: another version's may not.
  std::optional<ModelConfig> preset = {};
  std::optional<Lowering> stored_lowering = {};  ///< of `workload`, where SourceRequest::lowering changed it
  std::string calibration = {};                  ///< of a recording: what import kept of it for plans; empty: nothing
  std::string stored_digest = {};                ///< with that: digest_of() of the workload's JSON in the store
  /// What that says, where it is of `workload` on the machine that it is planned on; none: found anew.
  std::optional<sim::HostScale> host_scale = {};
};

/// Fails with ErrorKind::input or ::usage, saying what the file is and what would work instead: a snapshot or a trace
/// must be imported first, a store without a workload be imported again; an unknown name gets the nearest preset.
[[nodiscard]] Result<Source> read_source(const SourceRequest& request);

/// What the job of a stored plan had and one planned from it has not, a sentence for each, which is part of every
/// answer. `given`: what the verb was told of that anew.
[[nodiscard]] std::vector<std::string> left_out(const Source& source, const JobOptions& given);

/// Source::preset of a stored plan of that name, with model_options() as its store has them; none: there is no such
/// preset, or its options are not understood.
[[nodiscard]] std::optional<ModelConfig> stored_preset(const std::string& name, const std::string& options);

/// The files that a SOURCE is made of: itself, and of a model's folder, or of a file that is of one, its config.json
/// and its safetensors files. Of text that names no file: itself.
[[nodiscard]] std::vector<std::string> source_files(const std::string& text);

/// Workloads of `source` on `machine`, for any number of threads: the recorded one, or generated ones, of which those
/// that settings do not shape anew are kept. A stored plan's at other settings are generated, too, where its preset
/// makes the stored one. `source` and `machine` must outlive it. at() fails (usage) where a model
/// needs host costs that the machine profile does not have, or cannot run at the settings.
[[nodiscard]] std::unique_ptr<sim::WorkloadSource> workloads_of(const Source& source,
                                                                const sim::MachineProfile& machine);

}  // namespace foreshard::traces
