#include "sim/parallel/part_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kAgain = "simulate this part again";

}  // namespace

template <class T>
void PieceMembers::value(const char* key, bool (Json::*is)() const noexcept, T& out) {
  const auto found = json_.find(key);
  if (found == json_.end() || !((*found).*is)()) return wrong(key);
  out = found->template get<T>();
}

void PieceMembers::read(const char* key, std::string& out) {
  value(key, &Json::is_string, out);
}
void PieceMembers::read(const char* key, bool& out) {
  value(key, &Json::is_boolean, out);
}
void PieceMembers::read(const char* key, double& out) {
  value(key, &Json::is_number, out);
}
void PieceMembers::read(const char* key, std::uint32_t& out) {
  std::uint64_t wide = 0;
  read(key, wide);
  if (wide > UINT32_MAX) return wrong(key);
  out = static_cast<std::uint32_t>(wide);
}
void PieceMembers::read(const char* key, std::int32_t& out) {
  std::int64_t wide = 0;
  read(key, wide);
  if (wide < INT32_MIN || wide > INT32_MAX) return wrong(key);
  out = static_cast<std::int32_t>(wide);
}
void PieceMembers::read(const char* key, std::uint64_t& out) {
  value(key, &Json::is_number_unsigned, out);
}
void PieceMembers::read(const char* key, std::int64_t& out) {
  value(key, &Json::is_number_integer, out);
}
void PieceMembers::read(const char* key, std::vector<std::string>& out) {
  const auto list = json_.find(key);
  if (list == json_.end() || !list->is_array()) return wrong(key);
  for (const Json& one : *list) {
    if (!one.is_string()) return wrong(key);
    out.push_back(one.get<std::string>());
  }
}
void PieceMembers::read(const char* key, std::vector<std::uint64_t>& out) {
  const auto list = json_.find(key);
  if (list == json_.end() || !list->is_array()) return wrong(key);
  for (const Json& one : *list) {
    if (!one.is_number_unsigned()) return wrong(key);
    out.push_back(one.get<std::uint64_t>());
  }
}
void PieceMembers::each(const char* key, const std::function<void(PieceMembers&)>& take) {
  const auto list = json_.find(key);
  if (list == json_.end() || !list->is_array()) return wrong(key);
  for (const Json& one : *list) {
    PieceMembers members(one, where_ + " " + key);
    take(members);
    if (!members.error()) continue;
    if (!error_) error_ = members.error();
    return;
  }
}
void PieceMembers::wrong(std::string_view key) {
  if (error_) return;
  error_ = Error{ErrorKind::input, fmt::format("'{}' is missing, or not what a part has there", key), where_, kAgain};
}

std::string part_text(const PieceKind& kind, const Part& part, const std::string& fingerprint, std::size_t pieces,
                      const std::function<Json(std::size_t)>& json_of) {
  Json json{{"part_of", kind.name},       {"schema", 1},      {"part", part.number},   {"parts", part.of},
            {"fingerprint", fingerprint}, {"pieces", pieces}, {"found", Json::array()}};
  for (std::size_t i = part.number; i < pieces; i += part.of) {
    Json piece{{"piece", i}};
    piece.update(json_of(i));
    json["found"].push_back(std::move(piece));
  }
  return json_text(json) + "\n";
}

Result<PartHead> read_part(const PieceKind& kind, std::string_view text, const std::string& where,
                           const std::function<void(std::size_t)>& begin,
                           const std::function<void(std::size_t, PieceMembers&)>& take) {
  const Json json = parse_ordered_json_text(text);
  if (!json.is_object() || json.value("part_of", Json()) != Json(kind.name) || json.value("schema", Json()) != Json(1))
    return fail(ErrorKind::input, fmt::format("is no part of {}", kind.name), where, kAgain);
  PartHead out;
  std::uint64_t pieces = 0;
  PieceMembers head(json, where);
  head.read("part", out.part.number);
  head.read("parts", out.part.of);
  head.read("pieces", pieces);
  head.read("fingerprint", out.fingerprint);
  const auto found = json.find("found");
  if (found == json.end() || !found->is_array()) head.wrong("found");
  if (out.part.of == 0 || out.part.of > kMaxParts || out.part.number >= out.part.of) head.wrong("parts");
  if (pieces > kind.most) head.wrong("pieces");
  if (head.error()) return tl::unexpected(*head.error());
  out.pieces = pieces;
  begin(out.pieces);
  std::vector<bool> seen(out.pieces);
  for (const Json& one : *found) {
    PieceMembers members(one, where + " found");
    std::uint64_t piece = 0;
    if (!one.is_object()) members.wrong("piece");
    if (!members.error()) members.read("piece", piece);
    if (!members.error() && (piece >= pieces || !out.part.has(piece) || seen[piece])) members.wrong("piece");
    if (!members.error()) {
      seen[piece] = true;
      take(piece, members);
    }
    if (members.error()) return tl::unexpected(*members.error());
  }
  if (found->size() != out.part.size(pieces))
    return fail(ErrorKind::input,
                fmt::format("has {} of the {} {} of its part", found->size(), out.part.size(pieces), kind.name), where,
                kAgain);
  return out;
}

}  // namespace foreshard::sim
