// Axes of the models that policies are tried on. Extents are bound at run time, so that one compiled model is tried at
// many sizes.
#pragma once
#include <vector>

#include <partita/core/axis.hpp>

namespace partita::testing::models {

struct sample : axis<"sample"> {};
struct position : axis<"position"> {};
struct source : axis<"source"> {};  // positions of the sequence that an encoder reads
struct vocabulary : axis<"vocabulary"> {};
struct hidden : axis<"hidden"> {};
struct head : axis<"head"> {};
struct share : axis<"share"> {};  // heads of queries for one head of keys
struct width : axis<"width"> {};
struct inner : axis<"inner"> {};
struct stretch : axis<"stretch"> {};  // of a sequence: position = stretch x token
struct token : axis<"token"> {};
struct expert : axis<"expert"> {};
struct slot : axis<"slot"> {};
struct feature : axis<"feature"> {};
struct coarse : axis<"coarse"> {};  // positions after two became one
struct pair : axis<"pair"> {};
struct risen : axis<"risen"> {};  // hidden under another name
struct wide : axis<"wide"> {};    // hidden and risen one after the other

// What a model of this family is bound to; a model uses some of them.
struct sizes {
  std::size_t samples = 6, positions = 5, sources = 4, vocabulary = 11, hidden = 8, heads = 3, share = 2, width = 4, inner = 7,
              experts = 3, slots = 3, features = 5;
  std::vector<binding> extents() const {
    return {bind<models::sample>(samples),
            bind<models::position>(positions),
            bind<models::source>(sources),
            bind<models::vocabulary>(vocabulary),
            bind<models::hidden>(hidden),
            bind<models::head>(heads),
            bind<models::share>(share),
            bind<models::width>(width),
            bind<models::inner>(inner),
            bind<models::stretch>(positions / 2),
            bind<models::token>(2),
            bind<models::expert>(experts),
            bind<models::slot>(slots),
            bind<models::feature>(features),
            bind<models::coarse>(positions / 2),
            bind<models::pair>(2),
            bind<models::risen>(hidden),
            bind<models::wide>(2 * hidden)};
  }
};

}  // namespace partita::testing::models
