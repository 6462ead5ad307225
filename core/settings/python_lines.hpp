// The lines of Python that make a PyTorch program run with given settings.
//
// For a program with `model` and its list of blocks; names are those of PyTorch 2.11's public API
// (torch.distributed.fsdp: fully_shard, FSDPModule, MixedPrecisionPolicy, CPUOffloadPolicy). What 2.11 has no call
// for is a comment that says what does it. Only what differs from PyTorch's defaults is written. Pure.
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

/// `blocks`: how the user's program names the list of modules that become units ("model.layers").
[[nodiscard]] PythonLines python_lines(const Settings& settings, const std::string& blocks = "model.layers");

}  // namespace foreshard
