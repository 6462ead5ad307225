// Holds the models against a profile's measured tables, and corrects them by what they miss.
//
// At a measured size the correction is measured / modelled; between two sizes its logarithm is interpolated over the
// logarithm of the size; beyond the ends the end's stays. So measured points come out exactly and everything between
// and beyond follows the mechanism. Other rank counts of a table's shape borrow its correction, by half as much for
// each doubling between them, where it has two points at least. A reduction takes the table of its own dtypes where
// there is one, and else what another's misses of that one's own mechanism. Small collectives issued back to back wait
// for the host: such points say how fast the host issues and nothing about the collective. Immutable after
// construction.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

/// What a mechanism says before any table corrects it: the collective's microseconds.
using Model = std::function<double(const CollectiveRequest&)>;

class TableCorrection {
 public:
  struct Correction {
    double factor = 1;                 ///< on the mechanism's time
    double issue_us = 0;               ///< the host's pace where it is the limit
    std::uint32_t measured_ranks = 0;  ///< of the table this comes from; 0: none of this kind, transport and shape
  };

  TableCorrection(const MachineProfile& machine, const Model& model);

  /// `transport` is the one that ran; a table of the one asked for comes first.
  [[nodiscard]] Correction correction(const CollectiveRequest& asked, Transport ran) const;

 private:
  struct Point {
    double log_bytes = 0;
    double log_value = 0;
  };
  struct Curve {
    CollectiveTable table;       ///< without its points
    std::vector<Point> factors;  ///< measured over modelled where the device was the limit
    std::vector<Point> paces;    ///< microseconds where the host was
    double least_us = 0;         ///< the shortest measured time
  };
  [[nodiscard]] static double at(const std::vector<Point>& points, double bytes);
  [[nodiscard]] double pace(const Curve& curve, double bytes) const;
  [[nodiscard]] const Curve* nearest(const CollectiveRequest& request, Transport transport) const;

  TableRules rules_;
  double issue_us_;
  std::vector<Curve> curves_;
};

}  // namespace foreshard::sim
