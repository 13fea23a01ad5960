//! Feed paths of accounts: one each, of which the hash alone is kept.

use mcpindex_store::accounts::{FeedPathRecord, RoleChange, SecretHash};
use mcpindex_store::testing::on_each_backend;

use crate::accounts::{DAY, NOW, admin, sign_in};

#[tokio::test]
async fn an_account_has_one_feed_path_and_a_new_one_ends_the_one_before() {
    on_each_backend(async |store| {
        let ada = sign_in(&store, "ada").await;
        let (first, second) = (SecretHash::of("first"), SecretHash::of("second"));
        assert_eq!(store.feed_path(ada.id).await.unwrap(), None);
        assert_eq!(store.feed_path_holder(first, NOW).await.unwrap(), None);

        store.set_feed_path(ada.id, first, NOW).await.unwrap();
        let holder = store.feed_path_holder(first, NOW + DAY).await.unwrap();
        assert_eq!(holder.unwrap().id, ada.id);
        let kept = FeedPathRecord {
            created_at: NOW,
            last_used_on: Some((NOW + DAY).div_euclid(DAY)),
        };
        assert_eq!(store.feed_path(ada.id).await.unwrap(), Some(kept));

        store.set_feed_path(ada.id, second, NOW + 5).await.unwrap();
        let kept = FeedPathRecord {
            created_at: NOW + 5,
            last_used_on: None,
        };
        assert_eq!(store.feed_path(ada.id).await.unwrap(), Some(kept));
        assert_eq!(store.feed_path_holder(first, NOW).await.unwrap(), None);
        assert!(store.feed_path_holder(second, NOW).await.unwrap().is_some());

        assert!(store.revoke_feed_path(ada.id).await.unwrap());
        assert!(!store.revoke_feed_path(ada.id).await.unwrap());
        assert_eq!(store.feed_path_holder(second, NOW).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_disabled_accounts_feed_path_opens_nothing_and_it_gets_none() {
    on_each_backend(async |store| {
        admin(&store, "grace").await;
        let ada = sign_in(&store, "ada").await;
        let token = SecretHash::of("token");
        store.set_feed_path(ada.id, token, NOW).await.unwrap();
        assert_eq!(
            store.disable_account(ada.id, NOW).await.unwrap(),
            RoleChange::Done
        );
        assert_eq!(store.feed_path_holder(token, NOW).await.unwrap(), None);
        let refused = store.set_feed_path(ada.id, token, NOW).await.unwrap_err();
        assert!(
            refused.to_string().contains("is disabled or unknown"),
            "{refused}"
        );
    })
    .await;
}
