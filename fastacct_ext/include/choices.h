/* choices.h -- what can be asked of a kernel, by name. */
#ifndef FA_CHOICES_H
#define FA_CHOICES_H

typedef enum fa_quantity {
    FA_GIVE_EPSILON = 0,
    FA_GIVE_DELTA = 1,
    FA_GIVE_LOG_DELTA = 2,
    FA_GIVE_THRESHOLD = 3, /* of the best test with a false-positive rate (exact/threshold.h) */
    FA_GIVE_ABOUT = 4      /* epsilon as lines say it that are not certified: where a search looks next, no bound */
} fa_quantity;
typedef enum fa_ways { FA_WAYS_ADD = 1, FA_WAYS_REMOVE = 2, FA_WAYS_BOTH = 3 } fa_ways; /* both: the larger */
typedef enum fa_rule { FA_RULE_MIRONOV = 0, FA_RULE_CKS = 1, FA_RULE_OPTIMAL = 2 } fa_rule;
typedef enum { FA_FIND_NOISE_MULTIPLIER, FA_FIND_SAMPLE_RATE, FA_FIND_STEPS } fa_wanted;

#endif
