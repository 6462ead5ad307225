// Exports as strings, for tests.
#pragma once

#include <sstream>
#include <string>

#include "tests/catch.hpp"
#include "traces/export/byte_sink.hpp"
#include "traces/export/selection.hpp"

namespace foreshard::test {

/// What `write` writes to a sink.
template <class Write>
std::string written(Write write) {
  std::ostringstream out;
  traces::ByteSink sink = traces::ByteSink::to_stream(out);
  write(sink);
  REQUIRE(sink.finish());
  return out.str();
}

inline traces::ExportSelection selected(const Run& run, std::optional<std::int32_t> step = {}) {
  auto selection = traces::select_export(run, step);
  REQUIRE(selection);
  return *selection;
}

}  // namespace foreshard::test
