#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include <partita/train/table.hpp>

TEST_CASE("a table aligns text left and numbers right") {
  partita::table plans({"plan", "devices", "step", "fits"});
  plans.row("data parallel", 4, "12.3 ms", true);
  plans.row(std::string("pipeline"), 16u, "-", false);
  plans.rule();
  plans.row("best", 0.5, "9 ms", "");
  CHECK(plans.text() ==
        "plan           devices     step  fits\n"
        "-------------------------------------\n"
        "data parallel        4  12.3 ms  yes\n"
        "pipeline            16        -  no\n"
        "-------------------------------------\n"
        "best               0.5     9 ms\n");
  std::ostringstream out;
  out << plans;
  CHECK(out.str() == plans.text());
  CHECK_THROWS_WITH_AS(plans.row("one"), "table: a row has 1 cells, and there are 4 headers; give each header one cell",
                       partita::error);
  CHECK_THROWS_AS(partita::table({}), partita::error);
}
