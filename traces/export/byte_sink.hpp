// Where an export's bytes go, in order: a file, packed with gzip or not, or a stream. Writers hand over pieces and
// never hold a whole file. Not thread-safe. The same pieces give the same bytes.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::traces {

class ByteSink {
 public:
  /// A new file, or one that is there and may be written over (AtomicFile's temporary one).
  [[nodiscard]] static Result<ByteSink> to_file(const std::string& path, bool gzip);
  /// `out` must outlive the sink.
  [[nodiscard]] static ByteSink to_stream(std::ostream& out);

  ByteSink(ByteSink&&) noexcept;
  ByteSink& operator=(ByteSink&&) = delete;
  ~ByteSink();

  /// Failures are kept for finish().
  void write(std::string_view bytes);
  /// Bytes written so far, before packing.
  [[nodiscard]] std::uint64_t written() const;
  /// Flushes and closes. Fails (input) where any byte could not be written: a full disk, a closed pipe.
  [[nodiscard]] Result<void> finish();

 private:
  struct State;
  explicit ByteSink(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace foreshard::traces
