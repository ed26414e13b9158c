// Lines over a row of named places, as SVG: what a benchmark draws.
//
//   const std::string svg = PlotSvg({"8", "128"}, {{"tokens/s", {{"here", {900, 950}}}}});
#pragma once

#include <string>
#include <vector>

namespace pergola::cli {

struct PlotLine {
  std::string name;
  std::vector<double> values;  // of each place; not finite or below zero: left out
};

struct PlotPanel {
  std::string title;
  std::vector<PlotLine> lines;
};

// One panel below the other, all over the same places; each from 0 to its largest value. Stands
// alone: no script, no style from elsewhere. Names are escaped.
std::string PlotSvg(const std::vector<std::string>& places, const std::vector<PlotPanel>& panels);

}  // namespace pergola::cli
