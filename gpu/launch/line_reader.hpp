// Reads a pipe line by line on an io_context. Used by supervisor.cpp for the names of its ranks.
#pragma once

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/bootstrap/descriptor.hpp"

namespace foreshard::gpu {

class LineReader : public std::enable_shared_from_this<LineReader> {
 public:
  /// Longer lines come in pieces.
  static constexpr std::size_t kLongest = 4096;

  LineReader(boost::asio::io_context& context, OwnedDescriptor pipe, std::function<void(std::string_view line)> on_line)
      : pipe_(context, pipe.release()), on_line_(std::move(on_line)) {}

  void start() { read(); }
  [[nodiscard]] bool open() const { return pipe_.is_open(); }
  /// What is there without its end of line is a line too.
  void close() {
    if (!rest_.empty()) on_line_(rest_);
    rest_.clear();
    boost::system::error_code ignored;
    pipe_.close(ignored);
  }

 private:
  void read() {
    pipe_.async_read_some(boost::asio::buffer(buffer_), [self = shared_from_this()](auto error, std::size_t n) {
      if (!self->open()) return;
      self->take({self->buffer_.data(), n});
      if (error) return self->close();
      self->read();
    });
  }

  void take(std::string_view text) {
    for (const char c : text) {
      if (c != '\n') rest_ += c;
      if (c != '\n' && rest_.size() < kLongest) continue;
      on_line_(rest_);
      rest_.clear();
    }
  }

  boost::asio::posix::stream_descriptor pipe_;
  std::function<void(std::string_view)> on_line_;
  std::array<char, 16 << 10> buffer_;
  std::string rest_;
};

}  // namespace foreshard::gpu
