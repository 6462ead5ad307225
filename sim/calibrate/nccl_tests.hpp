// Output of NVIDIA's nccl-tests: all_gather_perf, reduce_scatter_perf, all_reduce_perf.
//
// Read are the tables on standard output, of any version since 2.0 (columns are found by their heading; a launcher's
// "0: " or "[1,0]<stdout>:" before each line and log lines between are skipped; several runs may follow one another),
// and the files that -J writes. Of the two halves of a row, in-place is taken for all-gather and all-reduce (FSDP2
// gathers from the rank's slice of the output), out-of-place for reduce-scatter. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// Whether the text has a table heading of nccl-tests.
[[nodiscard]] bool looks_like_nccl_tests(std::string_view text);

/// Refused (input): a row before a heading or the list of ranks, a row whose size, time and bandwidths contradict one
/// another, wrong elements (#wrong above 0), unequal ranks on the hosts, a collective that neither the header, the
/// file's name, the bandwidths nor `options.kind` tell. A text without a footer is used as far as it goes, and noted.
[[nodiscard]] Result<Measurements> read_nccl_tests_text(std::string_view text, std::string_view where,
                                                        const ReadOptions& options);
[[nodiscard]] Result<Measurements> read_nccl_tests_json(const nlohmann::json& root, std::string_view where,
                                                        const ReadOptions& options);

}  // namespace foreshard::sim
