// What ranks and the rendezvous say to each other, and its form on the wire.
//
// A frame is "FS", the protocol's version (2), the kind of message, the payload's length (4 bytes, little-endian), the
// payload, and once both ends have proven themselves (proof.hpp) the frame's seal. A program that speaks something else
// is found out by its first bytes, another version of foreshard by its third. Payloads: the fields in the order below,
// numbers little-endian, texts and lists with their length (8 bytes) in front, blocks as they are. Foreign bytes give
// an Error, never more memory than they have themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/bootstrap/failure.hpp"
#include "gpu/bootstrap/proof.hpp"
#include "gpu/bootstrap/session.hpp"

namespace foreshard::gpu {

inline constexpr std::uint8_t kProtocolVersion = 2;
inline constexpr std::size_t kFrameHeaderBytes = 8;
/// The payload of what a connection may send before it has proven that it knows the run's secret.
inline constexpr std::size_t kMaxUnauthenticatedBytes = 64;
/// A rank's first message after that (Session's settings are 1 MiB at most).
inline constexpr std::size_t kMaxHelloBytes = (1 << 20) + (64 << 10);
/// One rank's share of a collective call.
inline constexpr std::size_t kMaxShareBytes = 64 << 20;
/// All shares of one: what every rank gets.
inline constexpr std::size_t kMaxRoundBytes = std::size_t{1} << 30;

enum class MessageKind : std::uint8_t {  // never renumber
  hello = 1,
  enter = 2,
  heartbeat = 3,
  failed = 4,
  finish = 5,
  greeting = 6,
  proof = 7,  ///< both ways
  welcome = 16,
  refused = 17,
  gathered = 18,
  server_beat = 19,
  abort = 20,
  leave_notice = 21,
  challenge = 22,
  unproven = 23,
};

// Before the proof (proof.hpp). Each has one fixed size.

struct Greeting {
  Block nonce{};
};

struct Challenge {
  Block nonce{};
};

struct Proof {
  Block mac{};
};

/// The rendezvous to a connection whose proof is wrong, or that sent something else: all that a stranger is told.
struct Unproven {};

// From a rank to the rendezvous.

struct Hello {
  std::uint32_t rank = 0, ranks = 0, local_rank = 0, local_ranks = 0;
  std::string host;  ///< the host's name, for messages
  std::uint64_t process = 0;
  std::vector<Setting> settings;
};

/// Comes to a collective call: the `sequence`th of this rank.
struct Enter {
  std::uint64_t sequence = 0;
  std::string what;
  std::string bytes;
};

struct Heartbeat {
  std::uint64_t progress = 0;    ///< operations reported so far
  std::uint64_t timeout_ms = 0;  ///< until the next one; 0: the rendezvous's own
  std::string operation;         ///< the last; empty: none yet
};

struct Failed {
  Error error;
  std::string operation;
};

struct Finish {};

// From the rendezvous to a rank.

struct Welcome {};

struct Refused {
  Error error;
};

struct Gathered {
  std::uint64_t sequence = 0;
  std::vector<std::string> bytes;  ///< by rank
};

struct ServerHeartbeat {
  std::string operation;  ///< rank 0's last, where it holds the rendezvous: its death takes the rendezvous along
};

struct Abort {
  RunFailure failure;
};

struct LeaveNotice {};

using Message = std::variant<Hello, Enter, Heartbeat, Failed, Finish, Welcome, Refused, Gathered, ServerHeartbeat,
                             Abort, LeaveNotice, Greeting, Challenge, Proof, Unproven>;

/// The whole frame, without a seal.
[[nodiscard]] std::string encode(const Message& message);

struct Frame {
  MessageKind kind{};
  std::string payload;
};

/// Any bytes: the message, or what is wrong with them.
[[nodiscard]] Result<Message> decode(const Frame& frame);

/// Cuts a stream of bytes into frames. A stream that was wrong once stays wrong.
class FrameReader {
 public:
  /// Frames with a longer payload are refused.
  void limit(std::size_t payload_bytes) { limit_ = payload_bytes; }
  /// Every frame from here on has a seal behind it.
  void expect(Seal seal) { seal_ = seal; }
  void feed(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole frame; nothing where more bytes are needed. Errors: no frame, too long, a wrong seal.
  [[nodiscard]] Result<std::optional<Frame>> next();

 private:
  std::string bytes_;
  std::size_t limit_ = kMaxUnauthenticatedBytes;
  std::optional<Seal> seal_;
};

}  // namespace foreshard::gpu
