#include "gpu/bootstrap/connection.hpp"

#include <fcntl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace foreshard::gpu {

using boost::system::error_code;

namespace {

/// Empty where the other end closed the connection: a process that dies with bytes unread resets it, and who writes
/// meanwhile meets a broken pipe.
std::string reason_of(error_code error) {
  namespace end = boost::asio::error;
  return error == end::eof || error == end::connection_reset || error == end::broken_pipe ? "" : error.message();
}

}  // namespace

void prepare(Connection::Socket& socket) {
  error_code ignored;
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

void Connection::start() {
  heard_ = std::chrono::steady_clock::now();
  read();
}

std::string Connection::address() const {
  error_code error;
  const auto end = socket_.remote_endpoint(error);
  if (error) return "a peer that is gone";
  const auto address = end.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
}

std::string Connection::peer() const {
  error_code error;
  const auto end = socket_.remote_endpoint(error);
  return error ? address() : address() + ":" + std::to_string(end.port());
}

void Connection::read() {
  socket_.async_read_some(boost::asio::buffer(buffer_), [self = shared_from_this()](error_code error, std::size_t n) {
    if (!self->open() || self->closing_) return;
    if (error) return self->end(reason_of(error));
    self->heard_ = std::chrono::steady_clock::now();
    self->reader_.feed({self->buffer_.data(), n});
    self->take();
    if (self->open() && !self->closing_) self->read();
  });
}

void Connection::take() {
  while (open() && !closing_) {
    auto frame = reader_.next();
    if (!frame) return garbage(std::move(frame.error()));
    if (!*frame) return;
    auto message = decode(**frame);
    if (!message) return garbage(std::move(message.error()));
    const auto told = on_message;  // it may put another in its place while it runs
    if (told) told(std::move(*message));
  }
}

void Connection::garbage(Error error) {
  const auto told = on_closed;
  const std::string reason = std::move(error.what);
  garbage_ = true;
  if (answers_garbage_ && !outgoing_) {
    send(Unproven{});
    on_closed = nullptr;
    close_when_sent();
  } else {
    close();
  }
  if (told) told(reason);
}

void Connection::send(std::shared_ptr<const std::string> frame) {
  if (!open() || closing_) return;
  Outgoing out{std::move(frame), std::nullopt};
  if (outgoing_) out.seal = outgoing_->next(*out.frame);
  if (waiting_bytes_ + out.size() > kMaxWaitingBytes)
    return end("it does not read from its socket; its send buffer is full");
  waiting_bytes_ += out.size();
  waiting_.push_back(std::move(out));
  if (waiting_.size() == 1) write();
}

void Connection::write() {
  // Held by the handler: close() empties the queue.
  const auto out = std::make_shared<const Outgoing>(waiting_.front());
  std::array<boost::asio::const_buffer, 2> bytes{boost::asio::buffer(*out->frame)};
  if (out->seal) bytes[1] = boost::asio::buffer(*out->seal);
  boost::asio::async_write(socket_, bytes, [self = shared_from_this(), out](error_code error, std::size_t) {
    if (!self->open()) return;
    if (error) return self->end(reason_of(error));
    self->waiting_bytes_ -= out->size();
    self->waiting_.pop_front();
    if (!self->waiting_.empty()) return self->write();
    if (self->closing_) self->close();
  });
}

void Connection::end(const std::string& reason) {
  const auto told = on_closed;
  close();
  if (told) told(reason);
}

void Connection::close() {
  error_code ignored;
  socket_.shutdown(boost::asio::socket_base::shutdown_both, ignored);
  socket_.close(ignored);
  waiting_.clear();
  waiting_bytes_ = 0;
  on_closed = nullptr;
  on_message = nullptr;
}

void Connection::close_when_sent() {
  closing_ = true;
  if (waiting_.empty()) close();
}

}  // namespace foreshard::gpu
