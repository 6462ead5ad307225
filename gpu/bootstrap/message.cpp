#include "gpu/bootstrap/message.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.hpp"
#include "gpu/bootstrap/bytes.hpp"

namespace foreshard::gpu {
namespace {

// Each message's fields, once for both directions: `a` is a Put or a Get.

struct Put {
  ByteWriter bytes;
  template <std::unsigned_integral T>
  void operator()(const T& value) {
    bytes.number(value);
  }
  void operator()(const std::string& text) { bytes.text(text); }
  void operator()(const Block& block) {
    for (const std::uint8_t byte : block) bytes.number(byte);
  }
  template <class T>
  void list(const std::vector<T>& items, auto each) {
    bytes.number(static_cast<std::uint64_t>(items.size()));
    for (const T& item : items) each(item);
  }
};

struct Get {
  ByteReader bytes;
  template <std::unsigned_integral T>
  void operator()(T& value) {
    value = bytes.number<T>();
  }
  void operator()(std::string& text) { text = bytes.text(); }
  void operator()(Block& block) {
    for (std::uint8_t& byte : block) byte = bytes.number<std::uint8_t>();
  }
  /// Grows with the bytes that are there, whatever number they claim.
  template <class T>
  void list(std::vector<T>& items, auto each) {
    const std::uint64_t size = bytes.number<std::uint64_t>();
    for (std::uint64_t i = 0; i < size && bytes.good(); ++i) each(items.emplace_back());
  }
};

constexpr std::array kKinds{ErrorKind::usage,    ErrorKind::input,      ErrorKind::mismatch,  ErrorKind::out_of_memory,
                            ErrorKind::deadlock, ErrorKind::rank_lost,  ErrorKind::rank_hung, ErrorKind::rendezvous,
                            ErrorKind::skipped,  ErrorKind::interrupted};

void kind_field(Put& a, const ErrorKind& kind) {
  a(static_cast<std::uint32_t>(kind));
}
void kind_field(Get& a, ErrorKind& kind) {
  const auto number = a.bytes.number<std::uint32_t>();
  kind = ErrorKind::rank_lost;  // of a number that this version does not know
  for (const ErrorKind known : kKinds)
    if (static_cast<std::uint32_t>(known) == number) kind = known;
}

void fields(auto& a, auto& error) {
  kind_field(a, error.kind);
  a(error.what);
  a(error.where);
  a(error.hint);
}

void message_fields(auto& a, auto& m, const Hello*) {
  a(m.rank), a(m.ranks), a(m.local_rank), a(m.local_ranks), a(m.host), a(m.process);
  a.list(m.settings, [&](auto& setting) { a(setting.key), a(setting.value); });
}
void message_fields(auto& a, auto& m, const Enter*) {
  a(m.sequence), a(m.what), a(m.bytes);
}
void message_fields(auto& a, auto& m, const Heartbeat*) {
  a(m.progress), a(m.timeout_ms), a(m.operation);
}
void message_fields(auto& a, auto& m, const Failed*) {
  fields(a, m.error), a(m.operation);
}
void message_fields(auto&, auto&, const Finish*) {}
void message_fields(auto&, auto&, const Welcome*) {}
void message_fields(auto& a, auto& m, const Refused*) {
  fields(a, m.error);
}
void message_fields(auto& a, auto& m, const Gathered*) {
  a(m.sequence);
  a.list(m.bytes, [&](auto& share) { a(share); });
}
void message_fields(auto& a, auto& m, const ServerHeartbeat*) {
  a(m.operation);
}
void message_fields(auto&, auto&, const LeaveNotice*) {}
void message_fields(auto& a, auto& m, const Greeting*) {
  a(m.nonce);
}
void message_fields(auto& a, auto& m, const Challenge*) {
  a(m.nonce);
}
void message_fields(auto& a, auto& m, const Proof*) {
  a(m.mac);
}
void message_fields(auto&, auto&, const Unproven*) {}

constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

void message_fields(Put& a, const Abort& m, const Abort*) {
  kind_field(a, m.failure.kind);
  a(m.failure.rank.value_or(kNoRank));
  a(m.failure.operation), a(m.failure.cause), a(m.failure.where), a(m.failure.hint);
}
void message_fields(Get& a, Abort& m, const Abort*) {
  kind_field(a, m.failure.kind);
  const auto rank = a.bytes.number<std::uint32_t>();
  if (rank != kNoRank) m.failure.rank = rank;
  a(m.failure.operation), a(m.failure.cause), a(m.failure.where), a(m.failure.hint);
}

template <class T>
constexpr MessageKind kKindOf = MessageKind::hello;
template <>
constexpr MessageKind kKindOf<Enter> = MessageKind::enter;
template <>
constexpr MessageKind kKindOf<Heartbeat> = MessageKind::heartbeat;
template <>
constexpr MessageKind kKindOf<Failed> = MessageKind::failed;
template <>
constexpr MessageKind kKindOf<Finish> = MessageKind::finish;
template <>
constexpr MessageKind kKindOf<Welcome> = MessageKind::welcome;
template <>
constexpr MessageKind kKindOf<Refused> = MessageKind::refused;
template <>
constexpr MessageKind kKindOf<Gathered> = MessageKind::gathered;
template <>
constexpr MessageKind kKindOf<ServerHeartbeat> = MessageKind::server_beat;
template <>
constexpr MessageKind kKindOf<Abort> = MessageKind::abort;
template <>
constexpr MessageKind kKindOf<LeaveNotice> = MessageKind::leave_notice;
template <>
constexpr MessageKind kKindOf<Greeting> = MessageKind::greeting;
template <>
constexpr MessageKind kKindOf<Challenge> = MessageKind::challenge;
template <>
constexpr MessageKind kKindOf<Proof> = MessageKind::proof;
template <>
constexpr MessageKind kKindOf<Unproven> = MessageKind::unproven;

tl::unexpected<Error> malformed(std::string what) {
  return fail(ErrorKind::rendezvous, std::move(what));
}

template <std::size_t I = 0>
Result<Message> decode_as(const Frame& frame) {
  if constexpr (I == std::variant_size_v<Message>) {
    return malformed(fmt::format("a message of the unknown kind {}", static_cast<unsigned>(frame.kind)));
  } else {
    using T = std::variant_alternative_t<I, Message>;
    if (frame.kind != kKindOf<T>) return decode_as<I + 1>(frame);
    Get get{ByteReader(frame.payload)};
    T message;
    message_fields(get, message, static_cast<const T*>(nullptr));
    if (!get.bytes.done())
      return malformed(fmt::format("a malformed message of kind {}", static_cast<unsigned>(frame.kind)));
    return message;
  }
}

}  // namespace

std::string encode(const Message& message) {
  Put put;
  MessageKind kind{};
  std::visit(
      [&]<class T>(const T& m) {
        kind = kKindOf<T>;
        message_fields(put, m, static_cast<const T*>(nullptr));
      },
      message);
  const std::string payload = put.bytes.take();
  FORESHARD_CHECK(payload.size() <= 0xffff'ffff, "a message longer than its length field");
  ByteWriter header;
  header.number(std::uint8_t{'F'});
  header.number(std::uint8_t{'S'});
  header.number(kProtocolVersion);
  header.number(static_cast<std::uint8_t>(kind));
  header.number(static_cast<std::uint32_t>(payload.size()));
  return header.take() + payload;
}

Result<Message> decode(const Frame& frame) {
  return decode_as(frame);
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::size_t seen = std::min(bytes_.size(), std::size_t{2});
  if (std::string_view(bytes_).substr(0, seen) != std::string_view("FS").substr(0, seen))
    return malformed("it does not speak foreshard's protocol");
  if (bytes_.size() >= 3 && static_cast<std::uint8_t>(bytes_[2]) != kProtocolVersion)
    return malformed(fmt::format("it speaks version {} of the protocol, this foreshard version {}",
                                 static_cast<unsigned>(static_cast<std::uint8_t>(bytes_[2])), kProtocolVersion));
  if (bytes_.size() < kFrameHeaderBytes) return std::nullopt;
  ByteReader header(std::string_view(bytes_).substr(3, kFrameHeaderBytes - 3));
  const auto kind = static_cast<MessageKind>(header.number<std::uint8_t>());
  const auto size = header.number<std::uint32_t>();
  if (size > limit_) return malformed(fmt::format("a message of {} bytes, more than the {} allowed", size, limit_));
  const std::size_t end = kFrameHeaderBytes + size, behind = end + (seal_ ? sizeof(Block) : 0);
  if (bytes_.size() < behind) return std::nullopt;
  if (seal_) {
    Block seal;
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(end), seal.size(), seal.begin());
    if (!seal_->opens(std::string_view(bytes_).substr(0, end), seal))
      return malformed("a message that was changed on its way, or that somebody else sent");
  }
  Frame frame{kind, bytes_.substr(kFrameHeaderBytes, size)};
  bytes_.erase(0, behind);
  return frame;
}

}  // namespace foreshard::gpu
