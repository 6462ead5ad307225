// The lines of Python that make a PyTorch program run with given settings.
//
// For a program with `model` and its list of blocks; names are those of the public API of Settings::pytorch
// (torch.distributed.fsdp: fully_shard, FSDPModule, MixedPrecisionPolicy, CPUOffloadPolicy). What it has no call
// for is a class that is printed (python_classes.hpp), or a comment that says what does it. Only what differs from
// PyTorch's defaults is written. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/settings/settings.hpp"

namespace foreshard {

struct PythonLines {
  std::vector<std::string> environment;  ///< "PYTORCH_ALLOC_CONF=expandable_segments:True", set before the start
  std::vector<std::string> lines;        ///< Python, in the order in which it must run
  /// Everything as one text: environment as comments, then the lines.
  [[nodiscard]] std::string text() const;
};

/// How the user's program names the modules that become units; by default as torchtitan's Llama does.
struct ModuleNames {
  /// The lists of blocks, in the order in which they run: one, or an encoder's and a decoder's.
  std::vector<std::string> blocks = {"model.layers"};
  std::string embedding = "model.tok_embeddings";
  std::vector<std::string> head = {"model.norm", "model.output"};  ///< all that runs behind the last block
  std::string experts = "moe.experts";                             ///< below each block that has some
  /// Units inside each block, the modules of each below it: {{"wq"}, {"w1", "w3"}}. Empty: there are none.
  std::vector<std::vector<std::string>> inside = {};
  bool wraps_blocks = true;  ///< each block is a unit itself
  /// Units outside of the blocks beside the root, the modules of each: {{"tok"}, {"norm", "head"}}.
  std::vector<std::vector<std::string>> outside = {};
  /// Every unit but the root, those inside others first, where blocks are not all alike or lie in a unit; then both
  /// lists above are empty.
  std::vector<std::vector<std::string>> units = {};
};

[[nodiscard]] PythonLines python_lines(const Settings& settings, const ModuleNames& modules = {});

}  // namespace foreshard
