// A part of split work as a file: what one task found of each of its pieces, and what of.
//
// Who: sim/sweep/sweep_part.hpp, sim/ranks/trials_part.hpp and sim/forecast/forecast_part.hpp say what a piece is.
// Numbers are read as they were written, to the last bit. Pure.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "sim/parallel/part.hpp"

namespace foreshard::sim {

/// One kind of piece: "sweep points", "trials".
struct PieceKind {
  std::string_view name;
  std::size_t most = 0;  ///< pieces of the whole work
};

template <class T>
struct PartFile {
  Part part;
  std::string fingerprint;              ///< of the whole work
  std::vector<std::optional<T>> found;  ///< by piece of the whole work; those of the part are there
};

/// Reads members of one piece's object; the first that is missing, or is of another type, is the error.
class PieceMembers {
 public:
  PieceMembers(const nlohmann::ordered_json& json, std::string where) : json_(json), where_(std::move(where)) {}

  void read(const char* key, std::string& out);
  void read(const char* key, bool& out);
  void read(const char* key, double& out);
  void read(const char* key, std::uint32_t& out);
  void read(const char* key, std::uint64_t& out);
  void read(const char* key, std::int32_t& out);
  void read(const char* key, std::int64_t& out);
  void read(const char* key, std::vector<std::string>& out);
  void read(const char* key, std::vector<std::uint64_t>& out);
  /// `take` hears of each object of a list.
  void each(const char* key, const std::function<void(PieceMembers&)>& take);
  void wrong(std::string_view key);
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  void value(const char* key, bool (nlohmann::ordered_json::*is)() const noexcept, T& out);

  const nlohmann::ordered_json& json_;
  std::string where_;
  std::optional<Error> error_;
};

/// JSON of what `json_of` says of each of `part`'s of so many pieces.
[[nodiscard]] std::string part_text(const PieceKind& kind, const Part& part, const std::string& fingerprint,
                                    std::size_t pieces,
                                    const std::function<nlohmann::ordered_json(std::size_t)>& json_of);

struct PartHead {
  Part part;
  std::string fingerprint;
  std::size_t pieces = 0;
};
/// `begin` hears how many pieces there are, `take` of each that is there, once. Errors (input) name the place in the
/// file.
[[nodiscard]] Result<PartHead> read_part(const PieceKind& kind, std::string_view text, const std::string& where,
                                         const std::function<void(std::size_t pieces)>& begin,
                                         const std::function<void(std::size_t piece, PieceMembers& members)>& take);

/// The same, of pieces that `piece_of` makes.
template <class T, class PieceOf>
[[nodiscard]] Result<PartFile<T>> read_part_file(const PieceKind& kind, std::string_view text, const std::string& where,
                                                 const PieceOf& piece_of) {
  PartFile<T> out;
  const auto head = read_part(
      kind, text, where, [&](std::size_t pieces) { out.found.resize(pieces); },
      [&](std::size_t piece, PieceMembers& members) { out.found[piece] = piece_of(members); });
  FORESHARD_TRY(head);
  out.part = head->part;
  out.fingerprint = head->fingerprint;
  return out;
}

}  // namespace foreshard::sim
