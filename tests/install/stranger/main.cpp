// Touches each dependency of partita::cpu, so that a missing include directory or library fails here.
#include <cblas.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <partita/core/axis.hpp>
#include <thread>

namespace pt = partita;

struct sample : pt::axis<"sample"> {};

int main() {
  auto const bound = pt::bind<sample>(3);
  float const x[] = {1, 2, 3};
  float dot = 0;
  std::thread([&] { dot = cblas_sdot(static_cast<int>(bound.extent), x, 1, x, 1); }).join();
  nlohmann::json const report{{"dot", dot}};
  std::puts(report.dump().c_str());
  return report["dot"] == 14.0f ? 0 : 1;
}
