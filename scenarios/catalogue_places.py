"""Where is each situation of the catalogue tried, and where does our expectation differ from it?

Every case of `edge_cases.json` has exactly one place: it is played from its events, or a scenario
of its own forces it, or a reason says why this rig cannot.
"""

# Written as events for one server: `test_catalogue.py` plays them as they stand.
EVENTS = frozenset(
    """
    A04 A05 A10
    B01 B02 B03 B04 B05 B06 B07 B13 B14 B15 B16 B17 B21 B22 B23
    C01 C02 C07 C11 C14
    D01 D03 D04 D05 D06 D07 D09 D10 D11 D12 D15 D16 D17 D18 D19 D20 D21 D22 D25 D26 D27 D29
    E01 E02 E03 E07 E09 E11 E12 E13 E14 E15 E17 E18 E20 E21
    F01 F03
    """.split()
)

# Written in prose: the file and the scenario that forces them.
SCENARIOS = {
    "A12": "test_expiry.test_a_step_of_the_wall_clock_changes_nothing",
    "A14": "test_catalogue_time.test_a_copy_that_waits_longer_than_the_minute_is_new",
    "B18": "test_catalogue_upstream.test_a_retry_waits_until_the_first_copy_is_upstream",
    "B19": "test_catalogue_upstream.test_a_retry_of_a_frame_that_was_not_delivered_is_a_first_copy",
    "C04": "test_catalogue_stations.test_the_first_to_deliver_answers_however_weak_it_hears",
    "C08": "test_catalogue_stations.test_two_antennas_in_one_poll_make_one_reception",
    "C09": "test_catalogue_stations.test_nobody_answers_for_a_station_whose_link_has_ended",
    "C12": "test_catalogue_stations.test_the_end_of_an_old_connection_does_not_touch_the_new_one",
    "C16": "test_catalogue_stations.test_two_stations_with_one_eui_look_like_one",
    "C17": "test_catalogue_stations.test_a_frame_before_the_version_is_a_frame",
    "C19": "test_catalogue_upstream.test_every_message_tells_how_its_own_station_heard_it",
    "E16": "test_joins.test_the_old_session_lives_until_the_new_one_speaks",
    "E23": "test_joins.test_a_join_too_late_for_rx1_is_accepted_in_rx2",
    "F04": "test_catalogue_time.test_a_retry_after_a_crash_is_the_same_message",
    "F05": "test_catalogue_upstream.test_nothing_is_acknowledged_before_it_is_delivered",
    "F06": "test_several_servers.test_a_retry_that_only_the_loser_hears_is_not_answered",
    "G01": "test_several_servers.test_the_server_that_hears_first_owns_the_frame",
    "G02": "test_several_servers.test_the_other_server_may_be_the_first",
    "G04": "test_several_servers.test_a_retry_is_answered_by_its_owner",
    "G06": "test_several_servers.test_an_older_frame_that_nobody_else_heard_comes_too_late",
    "G08": "test_slow_store.test_a_store_that_says_nothing_for_long_holds_nothing_up",
    "G09": "test_ownership.test_a_frame_stays_with_the_server_that_died",
    "G10": "test_shared_store"
    ".test_without_the_store_every_server_delivers_flagged_and_none_answers",
    "G13": "test_several_servers.test_the_counter_passes_sixteen_bits_between_two_servers",
    "G15": "test_several_servers.test_a_new_session_owes_nothing_to_the_old_one",
    "G16": "test_several_servers.test_a_device_of_one_server_is_ignored_by_the_other",
    "G17": "test_ownership.test_who_owned_a_frame_is_known_for_a_day",
    "G18": "test_several_servers.test_every_server_has_copies_of_its_own",
    "G19": "test_ownership.test_clocks_that_differ_make_no_difference",
    "H01": "test_catalogue_answers.test_every_answer_has_a_counter_of_its_own",
    "H02": "test_catalogue_answers.test_an_answer_needs_four_tenths_of_a_second",
    "H03": "test_catalogue_answers.test_an_answer_that_the_duty_cycle_forbids_in_rx1_goes_to_rx2",
    "H04": "test_catalogue_answers.test_an_answer_that_no_station_reports_was_not_sent",
    "H05": "test_catalogue_answers.test_what_the_application_sends_goes_down_once",
    "H10": "test_catalogue_answers.test_a_station_discards_the_xtime_of_a_former_session",
    "H11": "test_catalogue_answers.test_the_downlink_counter_passes_sixteen_bits",
    "H12": "test_catalogue_answers.test_mac_commands_in_a_copy_say_nothing_new",
    "I01": "test_application_path.test_a_message_whose_puback_is_lost_has_one_effect",
    "I02": "test_application_path"
    ".test_a_server_that_dies_between_publish_and_puback_repeats_itself",
    "I03": "test_application_path.test_a_restart_of_the_broker_loses_nothing",
    "I05": "test_application_path.test_two_servers_with_one_client_id_lose_nothing",
    "I06": "test_application_path.test_a_copy_may_arrive_before_the_original",
    "I07": "test_application_path.test_copies_are_effects_by_id_and_one_effect_by_key",
    "I10": "test_catalogue_time.test_an_uplink_redelivered_an_hour_later_is_stopped_by_its_counter",
    "J01": "test_detectors.test_within_the_window_a_repeat_is_ignored",
    "J02": "test_detectors.test_after_the_window_a_repeat_is_accepted",
    "J03": "test_detectors.test_the_window_does_not_slide",
    "J04": "test_detectors.test_a_window_has_limits",
    "J09": "test_detectors.test_without_detection_every_repeat_has_its_effect",
    "J11": "test_detectors.test_a_late_number_is_lost",
    "J12": "test_detectors.test_number_one_begins_anew",
    "J15": "test_detectors.test_a_producer_may_begin_at_one_again",
    "J16": "test_detectors.test_with_checking_off_every_number_passes",
    "J17": "test_application_path.test_five_equal_measurements_are_five_effects",
    "J18": "test_detectors.test_a_producer_that_forgot_its_key_cannot_be_recognised",
    "J20": "test_consumer.test_two_consumers_with_stores_of_their_own_have_two_effects",
    "J21": "test_detectors.test_a_key_lives_until_its_cut_off",
    "J22": "test_detectors.test_keys_are_kept_while_a_queue_is_stuck",
    "K01": "test_catalogue_protocol.test_a_device_address_may_be_negative",
    "K02": "test_catalogue_protocol.test_a_station_with_gps_tells_the_time_of_a_frame",
    "K04": "test_catalogue_protocol.test_messages_without_use_are_passed_over",
    "K05": "test_catalogue_protocol.test_a_join_in_another_spelling_is_the_same_join",
    "K06": "test_catalogue_protocol.test_garbage_for_the_network_does_not_stop_a_device",
    "K07": "test_catalogue_stations.test_a_burst_is_cut_off_in_the_station",
    "K08": "test_catalogue_stations.test_frames_heard_without_a_link_are_delivered_late",
    "K10": "test_catalogue_protocol.test_stations_may_number_data_rates_differently",
    "L02": "test_catalogue_protocol.test_a_frame_inside_a_relayed_frame_is_not_looked_at",
    "L05": "test_catalogue_protocol.test_a_ghost_on_another_sub_band_is_a_copy",
    "L06": "test_catalogue_protocol.test_a_frame_in_lr_fhss_is_known_by_its_bytes",
}

# Not tried on this rig yet, and why.
NOT_YET: dict[str, str] = {}

# Where we expect something else than the catalogue: what, and why.
DIFFERENCES = {
    "B19": "The retry is NonDuplicate, not DuplicateDueToResubmission: the entry of a first copy"
    " that could not be delivered is rolled back, so that no strategy loses the data.",
    "C16": "One answer, not two: the connection that came last replaces the older one of that EUI,"
    " and what the older one still delivers is accepted but not answered.",
    "C17": "The frame is handled, not ignored: a station whose link comes back delivers what it"
    " had queued before it has been configured (Basics Station, s2e.c).",
    "D07": "The catalogue tries a level-1 key with the 32-bit counter; ours has the counter as on"
    " the wire, so the alias is a copy for level 1 and the counter check refuses it.",
    "F04": "Two answers, not one: the rig restarts a server between two frames, not within one, so"
    " the first answer is decided and then lost on its way to the station.",
    "F05": "Nothing is answered: publishing comes first, so the order that the catalogue forbids"
    " cannot be produced. The scenario forces its nearest neighbour, a failing upstream.",
    "G08": "There is no lock that could be held: a claim is one step of the store. What can hold a"
    " frame up is a store that does not answer; as the catalogue demands, the only copy is then"
    " delivered at once, flagged as unverified, whatever the strategy. It is not answered.",
    "G09": "There is no lock that could expire: a claim stands until the next frame, or a day. The"
    " other server does what its strategy says to a copy: Drop loses the frame (0, not 1), Mark"
    " marks it, None delivers it. Taking over after some seconds could deliver and answer it twice,"
    " for a server that is slow looks like one that died.",
    "G10": "Each server delivers, flagged as unverified and not marked, for every strategy; none"
    " answers: a FCntDown that nobody can reserve must not be used twice.",
    "I02": "One effect, and a duplicate that is ignored: we publish with QoS 1 and recognise the"
    " id, so that nothing depends on a session at the broker. The crash is after PUBLISH.",
    "I03": "Nothing is lost: we publish with QoS 1 from an outbox on the disk.",
    "I05": "Flapping cannot be counted, and is not looked at: every message has its effect once.",
    "I06": "All strategies alike, as far as the totals go; the copy is that of another server.",
    "I10": "The redelivered frame is NonDuplicate: after an hour level 1 has forgotten it. The"
    " counter refuses it, as the catalogue demands.",
    "J12": "The consumer compares no ids here; with its window, which is on by default, 1 and 2 are"
    " both recognised by that.",
    "J18": "Our servers cannot do it: the key follows from the frame, and is the same after a crash"
    " (test_application_path, a frame that goes up again). The producer of the scenario does it.",
    "J20": "The broker brings each message to both consumers: MQTT has no redelivery to another one"
    " while the session of the first lives.",
    "K05": "The copy is a Duplicate for every strategy and nothing goes upstream: the frame is a"
    " join, and joins have no soft duplicates (ADR 007, 1b).",
    "K08": "The frames arrive, late and in order: the radio goes on while the link is down and the"
    " station queues up to 64 frames (Basics Station, s2conf.h); it wipes nothing.",
    "L02": "Under Mark and None the copy is a SoftDuplicate, as any data frame's; totals agree.",
}
