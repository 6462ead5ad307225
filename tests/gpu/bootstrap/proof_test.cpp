#include "gpu/bootstrap/proof.hpp"

#include <fmt/core.h>

#include "gpu/bootstrap/message.hpp"
#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

Block counted(std::uint8_t first) {
  Block out;
  for (std::uint8_t& byte : out) byte = first++;
  return out;
}

std::string hex(const Block& block) {
  std::string out;
  for (const std::uint8_t byte : block) out += fmt::format("{:02x}", byte);
  return out;
}

const Nonces kNonces{counted(0), counted(32)};
const Key kKey("0123456789abcdef", "run-7");

/// What a reader makes of bytes that should hold one sealed message.
Result<std::optional<Frame>> read_sealed(const Seal& seal, std::string_view bytes) {
  FrameReader reader;
  reader.limit(kMaxHelloBytes);
  reader.expect(seal);
  reader.feed(bytes);
  return reader.next();
}

std::string sealed(Seal& seal, const Message& message) {
  const std::string frame = encode(message);
  const Block mac = seal.next(frame);
  return frame + std::string(mac.begin(), mac.end());
}

}  // namespace

TEST_CASE("proofs and seals are the BLAKE2b that other implementations compute") {
  // Python's hashlib.blake2b(digest_size=32, key=...) over the bytes of proof.cpp.
  CHECK(hex(kKey.proof(Role::rank, kNonces)) == "1546fb291fc090b32c2b389cfaa49be6d6637d11c0a00f1e6f45307ba17a0f1e");
  Seal seal = kKey.seal(Role::rank, kNonces);
  CHECK(hex(seal.next("hello")) == "4600a908a20dbd541669029d79d939ee37bb8db1e809153019eaab8f024e784d");
  CHECK(hex(seal.next("hello")) == "08d4d0badca6109723e7709416ab54ee215f8115ee8feee525096012d344618c");
}

TEST_CASE("a proof holds for one secret, run, role and pair of nonces") {
  const Block proof = kKey.proof(Role::rank, kNonces);
  CHECK(kKey.proven_by(Role::rank, kNonces, proof));
  CHECK_FALSE(kKey.proven_by(Role::rendezvous, kNonces, proof));  // sent back
  CHECK_FALSE(kKey.proven_by(Role::rank, {counted(1), counted(32)}, proof));
  CHECK_FALSE(kKey.proven_by(Role::rank, {counted(0), counted(33)}, proof));  // recorded earlier
  CHECK_FALSE(kKey.proven_by(Role::rank, {counted(32), counted(0)}, proof));
  CHECK_FALSE(Key("0123456789abcdeg", "run-7").proven_by(Role::rank, kNonces, proof));
  CHECK_FALSE(Key("0123456789abcdef", "run-8").proven_by(Role::rank, kNonces, proof));
  // What is secret and what is the run's name cannot be moved from one to the other.
  CHECK_FALSE(Key("0123456789abcdefr", "un-7").proven_by(Role::rank, kNonces, proof));
  for (std::size_t byte = 0; byte < proof.size(); ++byte) {
    Block other = proof;
    other[byte] ^= 0x10;
    CHECK_FALSE(kKey.proven_by(Role::rank, kNonces, other));
  }
}

TEST_CASE("nonces and secrets differ each time") {
  CHECK(random_block() != random_block());
  CHECK(random_secret() != random_secret());
  CHECK(random_secret().size() == 32);
  CHECK(random_secret().find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("a seal is of one message, its place and its direction") {
  const Message message = Heartbeat{7, 0, "step 3"};
  Seal out = kKey.seal(Role::rank, kNonces);
  const std::string first = sealed(out, message), second = sealed(out, message);
  const Seal in = kKey.seal(Role::rank, kNonces);
  const auto whole = read_sealed(in, first);
  REQUIRE(whole);
  REQUIRE(*whole);
  CHECK((*whole)->kind == MessageKind::heartbeat);
  CHECK_FALSE(read_sealed(in, second));                                        // one was left out
  CHECK_FALSE(read_sealed(kKey.seal(Role::rendezvous, kNonces), first));       // sent back
  CHECK_FALSE(read_sealed(kKey.seal(Role::rank, {kNonces.rank, {}}), first));  // of another connection
  FrameReader reader;
  reader.expect(in);
  reader.feed(first + second + first);
  CHECK(*reader.next());
  CHECK(*reader.next());
  const auto again = reader.next();
  REQUIRE_FALSE(again);
  CHECK(again.error().what == "a message that was changed on its way, or that somebody else sent");
  CHECK_FALSE(reader.next());  // wrong once, wrong for good
}

TEST_CASE("every bit of a sealed message counts, and so does its length") {
  Seal out = kKey.seal(Role::rank, kNonces);
  const std::string bytes = sealed(out, Heartbeat{7, 0, "step 3"});
  const Seal in = kKey.seal(Role::rank, kNonces);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const auto frame = read_sealed(in, changed + std::string(64, 'x'));
    CHECK((!frame || !*frame));  // never a message
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto frame = read_sealed(in, bytes.substr(0, size));
    REQUIRE(frame);
    CHECK_FALSE(*frame);
  }
}
